"""The pages of gshard-cost --html in a headless Chromium: no console message, no request, every view drawn and usable.

usage: html_page.py BIN_DIR, from the top of the checkout

A page forbids itself every request (Content-Security-Policy), and the browser tells on the console of each that is tried: so a page
without console messages asks for nothing. Pages that are broken on purpose show that the check would tell.
"""
import html as markup
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BIN = os.path.abspath(sys.argv[1])
BROWSER = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
MOST_BYTES = 1_500_000
TINY = "HloModule tiny\nENTRY e {\n  ROOT x = f32[4] parameter(0)\n}\n"
HOSTILE = """HloModule hostile, num_partitions=8
ENTRY e {
  x = f32[10,100,6] parameter(0), sharding={devices=[4,1,2]<=[8]}, metadata={op_name="</script><script>alert(1)</script>" source_file="<b>a&b.py" source_line=3}
  w = f32[100,30] parameter(1), sharding={devices=[1,8]<=[8]}, metadata={op_name="%s"}
  ROOT y = f32[10,6,30] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
""" % ("a_very_long_name/" * 60)
# Uses the page as people do: sorts, searches, selects, zooms, changes the theme.
DRIVER = """
<script>
const fire = (node, type) => node.dispatchEvent(new MouseEvent(type, {bubbles: true, clientX: 300, clientY: 60}));
setTimeout(() => {
  for (const button of document.querySelectorAll('button')) button.click();
  for (const node of [...document.querySelectorAll('[data-name], canvas, svg rect')].slice(0, 400)) {
    for (const type of ['mousemove', 'mousedown', 'mouseup', 'click', 'dblclick', 'mouseleave']) fire(node, type);
  }
  for (const choice of document.querySelectorAll('select')) {
    choice.selectedIndex = choice.options.length - 1;
    choice.dispatchEvent(new Event('change'));
  }
  const search = document.querySelector('input[type=search]');
  for (const text of ['dot', 'nothing has this', '']) {
    search.value = text;
    search.dispatchEvent(new Event('input'));
  }
  document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}));
  document.body.setAttribute('data-driven', 'yes');
}, 300);
</script>
"""
passed = failed = 0


def check(truth, what):
    global passed, failed
    passed, failed = passed + bool(truth), failed + (not truth)
    if not truth:
        print("FAIL", what)


def opened(page, fragment=""):
    """The document after its scripts, and what the console said."""
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run",
             f"--user-data-dir={profile}", "--enable-logging=stderr", "--virtual-time-budget=4000", "--window-size=1400,1000", "--dump-dom",
             f"file://{page}{fragment}"], capture_output=True, text=True, timeout=240)
    return done.stdout, re.findall(r"CONSOLE[^\]]*\] (.*)", done.stderr)


def run(words, text=None):
    done = subprocess.run([os.path.join(BIN, words[0]), *map(str, words[1:])], input=text, capture_output=True, text=True)
    check(done.returncode == 0, f"{words}: exit code {done.returncode}: {done.stderr}")
    return done.stdout


def check_page(name, folder, words, text, views):
    page = pathlib.Path(folder, name + ".html")
    run([*words, "--html", page], text)
    html = page.read_text()
    again = pathlib.Path(folder, "again.html")
    run([*words, "--html", again], text)
    check(again.read_text() == html, f"{name}: equal runs give equal pages")
    check(len(html) < MOST_BYTES, f"{name}: {len(html)} bytes")
    body, said = opened(page)
    check(said == [], f"{name}: the console says {said}")
    check(re.findall(r"<h2>(.*?)</h2>", body) == views, f"{name}: views {re.findall('<h2>(.*?)</h2>', body)}")
    driven = pathlib.Path(folder, "driven.html")
    driven.write_text(html.replace("</body>", DRIVER + "</body>"))
    body, said = opened(driven)
    check(said == [] and 'data-driven="yes"' in body, f"{name}, used: the console says {said}")
    return html


def check_findings(name, body, html, expected):
    """The advice: an item a finding, in order, with what to try and a link to a view that is there."""
    data = json.loads(re.search(r'id="gshard-data">\n(.*?)</script>', html, re.S)[1])
    check([finding["title"] for finding in data["findings"]] == expected, f"{name}: findings {data['findings']}")
    items = re.findall(r"<li><b>(.*?)</b><span>(.*?)</span><p class=\"fix\">(.*?)</p><a href=\"#(.*?)\">show</a></li>",
                       re.search(r'<ol class="findings">(.*?)</ol>', body, re.S)[1])
    plain = lambda text: markup.unescape(re.sub(r"</?code>", "`", text))
    check([tuple(map(plain, item)) for item in items] == [tuple(f[key] for key in ("title", "detail", "fix", "view")) for f in data["findings"]],
          f"{name}: the advice {items}")
    for item in items:
        check(re.search(rf'<section[^>]*id="{item[3]}"', body), f"{name}: the advice links to {item[3]}")


def check_check(folder, html):
    for what, broken in [("an error", html.replace("</body>", "<script>nothing.here();</script></body>")),
                         ("a request", html.replace("</body>", '<img src="http://localhost:1/x.png"></body>')),
                         ("a style sheet", html.replace("</body>", '<link rel="stylesheet" href="https://localhost:1/x.css"></body>'))]:
        page = pathlib.Path(folder, "broken.html")
        page.write_text(broken)
        check(opened(page)[1] != [], f"{what} is told on the console")


def main():
    if BROWSER is None:
        print("SKIPPED: no Chromium (samples/install_packages.sh --tests installs it)")
        return
    views = ["Verdict", "Memory", "Collectives", "Timeline", "Kernels", "Shardings", "Source"]
    with tempfile.TemporaryDirectory() as folder:
        cost = ["gshard-cost", "-"]
        mlp = pathlib.Path("samples/mlp.hlo").read_text()
        html = check_page("mlp", folder, cost, mlp, views)
        check_check(folder, html)
        body, _ = opened(pathlib.Path(folder, "mlp.html"), "#i=wi")
        check(re.search(r"<aside[^>]*display: block.*<b>wi</b>", body), "an address selects an instruction")
        check("fits tpu-v3 (15.5 GiB): 4 MiB" in body, "the verdict")
        check_findings("mlp", body, html, [
            "66 % of the step waits for all-reduce", "2.50 MiB at the peak are copies that an axis could cut", "No argument is donated: outputs take another 1 MiB"])
        check_page("tiny", folder, cost, TINY, views)
        hostile = check_page("hostile", folder, cost, HOSTILE, views)
        check("<script>alert" not in hostile, "names of the program are no script")
        check_page("partitioned", folder, cost, run(["gshard-opt", "partition", "samples/mlp.hlo"]), views)
        moe = run(["gshard-opt", "annotate", "samples/moe_2048.hlo", "--mesh", "core=2048", "--rules", "samples/moe_2048.rules"])
        check_page("moe_2048", folder, cost, moe, views)
        stages = run(["gshard-opt", "pipeline", "tests/golden/pipeline/shift.hlo", "--stages", "2", "--microbatches", "3", "--schedule", "shift"])
        check_page("shift", folder, cost, stages, [*views[:4], "Pipeline", *views[4:]])
        body = re.sub(r"<script.*?</script>", "", opened(pathlib.Path(folder, "shift.html"))[0], flags=re.S)
        check("computes at every tick" in body and "without waits for neighbours" not in body, "a shifting buffer's stages do not wait")
        check_page("sweep", folder, ["gshard-cost", "sweep", "-", "--mesh", "data=1..8,model=1..8"], mlp, ["Time and memory", "Meshes"])
        plans = ["gshard-opt", "auto", "-", "--mesh", "data=4,model=2", "--keep", "none", "-o", "/dev/null"]
        html = check_page("plans", folder, plans, mlp, ["Verdict", "Time and memory", "Plans", "Annotations and commands"])
        body, _ = opened(pathlib.Path(folder, "plans.html"))
        data = json.loads(re.search(r'id="gshard-data">\n(.*?)</script>', html, re.S)[1])
        check(len(data["plans"]) > 1 and body.count("<details") == len(data["plans"]), "every plan of the report has its annotations on the page")
        check(all(markup.escape(plan["command"], quote=False) in body for plan in data["plans"]), "and its command")


main()
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
