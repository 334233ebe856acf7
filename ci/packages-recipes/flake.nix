# Builds the package of a release's flake only with Nix. nixpkgs is not available everywhere, so this file contains the needed parts.
# The archive comes from `site`, which has the layout of releases on GitHub.
{ flake, site, system ? builtins.currentSystem }:
let
  release = import flake;
  pkgs = {
    stdenv = {
      hostPlatform.isLinux = true;
      cc.cc.lib = "of-the-compiler";
      mkDerivation = made: derivation {
        inherit system;
        inherit (made) src installPhase;
        name = "${made.pname}-${made.version}";
        program = made.meta.mainProgram;
        builder = "/bin/sh";
        args = [ "-euc" ''
          PATH=/usr/bin:/bin
          mkdir unpacked && tar -xzf $src -C unpacked --strip-components=1
          cd unpacked
          eval "$installPhase"
          test -x $out/bin/$program
        '' ];
      };
    };
    fetchurl = { url, hash }: builtins.fetchurl {
      url = builtins.replaceStrings [ "https://github.com/goondan/gdn/releases" ] [ site ] url;
      sha256 = hash;
    };
    lib = {
      optional = is: one: if is then [ one ] else [ ];
      licenses = { mit = "MIT"; asl20 = "Apache-2.0"; };
    };
    autoPatchelfHook = "hook";
  };
in
(release.outputs { self = null; nixpkgs.legacyPackages.${system} = pkgs; }).packages.${system}.default
