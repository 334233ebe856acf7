# Installs and tests a formula without Homebrew: ruby formula.rb FORMULA WORK SITE. Implements the commands of the formula as
# Homebrew documents them. The download comes from SITE, which has the layout of releases on GitHub.

require "digest"
require "fileutils"
require "open3"
require "pathname"

# A directory into which a formula installs files.
class Folder < Pathname
  def install(*files)
    mkpath
    files.flatten.each { |file| FileUtils.mv(file, self) }
  end
end

# Base class of formulas.
class Formula
  class << self
    attr_reader :stated, :tested

    %i[desc homepage version license url sha256].each do |name|
      define_method(name) { |value| (@stated ||= {})[name] = value }
    end

    def on_linux
      yield if RUBY_PLATFORM.include?("linux")
    end

    def on_macos
      yield if RUBY_PLATFORM.include?("darwin")
    end

    def on_intel
      yield if RUBY_PLATFORM.start_with?("x86_64")
    end

    def on_arm
      yield if RUBY_PLATFORM.start_with?("aarch64", "arm64")
    end

    def test(&block)
      @tested = block
    end
  end

  def initialize(prefix)
    @prefix = prefix
  end

  def bin
    Folder.new(File.join(@prefix, "bin"))
  end

  def share
    Folder.new(File.join(@prefix, "share"))
  end

  def version
    self.class.stated.fetch(:version)
  end

  def system(*command)
    Kernel.system(*command.map(&:to_s)) || raise("it failed: #{command.join(" ")}")
  end

  def shell_output(command)
    said, status = Open3.capture2(command)
    raise("it failed: #{command}") unless status.success?

    said
  end

  def assert_match(expected, text)
    raise("#{text} holds no #{expected}") unless text.include?(expected)
  end
end

formula, work, site = ARGV
work = File.expand_path(work)
load formula
stated = Gdn.stated
%i[desc homepage version license url sha256].each { |name| raise("it states no #{name}") unless stated[name] }
url = stated[:url].sub("https://github.com/goondan/gdn/releases", site)
archive = File.join(work, "formula.tar.gz")
Kernel.system("curl", "--fail", "--silent", "--output", archive, url) || raise("there is nothing at #{url}")
raise("the checksum is another one") unless Digest::SHA256.file(archive).hexdigest == stated[:sha256]

build = File.join(work, "formula")
FileUtils.mkpath(build)
Kernel.system("tar", "-xzf", archive, "-C", build, "--strip-components=1") || raise("it does not unpack")
made = Gdn.new(File.join(work, "cellar"))
Dir.chdir(build) { made.install }
trial = File.join(work, "trial")
FileUtils.mkpath(trial)
Dir.chdir(trial) { made.instance_eval(&Gdn.tested) }
raise("the completions are missing") unless (made.share + "bash-completion/completions/gdn").file?

puts "the formula installs, and its test passes"
