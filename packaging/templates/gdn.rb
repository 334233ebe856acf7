# Made by packaging/build; it goes into the tap as Formula/gdn.rb.
class Gdn < Formula
  desc "@SUMMARY@"
  homepage "@HOMEPAGE@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

@SYSTEMS@

  def install
    bin.install "bin/gdn"
    share.install Dir["share/*"]
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/gdn --version")
    system bin/"gdn", "init", "hello"
    system bin/"gdn", "validate", "--strict", "hello"
  end
end
