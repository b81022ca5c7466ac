#!/bin/sh
# Makes DIR, in which usr/local/bin has the programs, the root of an image: image_root.sh DIR. Debian, with busybox-static.
# The libraries that the programs load come in with their licences, a shell and the usual tools from busybox, and a user.
set -eu
root=$1
for program in "$root"/usr/local/bin/*; do ldd "$program"; done | grep -oE '/[^ ]+' | sort -u | while read -r library; do
  mkdir -p "$root${library%/*}"
  cp -L "$library" "$root$library"
  package=$(dpkg -S "$(realpath "$library")" "$library" 2>/dev/null | head -1 | cut -d: -f1)
  [ -z "$package" ] || install -Dm 644 "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
done
install -D "$(command -v busybox)" "$root/bin/busybox"
install -Dm 644 /usr/share/doc/busybox-static/copyright "$root/usr/share/doc/busybox-static/copyright"
for tool in $(busybox --list | grep -vx busybox); do ln -sf busybox "$root/bin/$tool"; done
mkdir -p "$root/etc" "$root/work"
mkdir -p "$root/tmp"
chmod 1777 "$root/tmp"
echo 'gshard:x:1000:1000::/work:/bin/sh' >"$root/etc/passwd"
chown 1000:1000 "$root/work"
