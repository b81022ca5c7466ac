# Homebrew formula (Linux). A tap fills in url and sha256 of a release's archive.
class Gshard < Formula
  desc "Shards large models on a laptop: memory, time, verification of SPMD programs"
  homepage "https://example.org/gshard"
  url "https://example.org/gshard/archive/v0.1.0.tar.gz"
  license "Apache-2.0"

  depends_on "cli11" => :build
  depends_on "cmake" => :build
  depends_on "ninja" => :build
  depends_on "nlohmann-json" => :build
  depends_on "pkgconf" => :build
  depends_on "robin-map" => :build
  depends_on "tl-expected" => :build
  depends_on "fmt"
  depends_on "highway"
  depends_on "libzip"
  depends_on :linux
  depends_on "mimalloc"
  depends_on "openblas"
  depends_on "re2"
  depends_on "tbb"
  depends_on "zlib"

  def install
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DGSHARD_UNITY=ON", "-DGSHARD_MPI=OFF", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build", "--component", "programs"
    system "cmake", "--install", "build", "--component", "manuals"
  end

  test do
    (testpath/"add.hlo").write <<~HLO
      HloModule add
      ENTRY main { x = f32[8] parameter(0) ROOT y = f32[8] add(x, x) }
    HLO
    assert_match "fits", shell_output("#{bin}/gshard-cost add.hlo")
  end
end
