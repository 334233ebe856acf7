# Made by packaging/build, with the checksums of one release.
{
  description = "@SUMMARY@";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      sources = {
@SYSTEMS@
      };
      package =
        system:
        let
          pkgs = nixpkgs.legacyPackages.${system};
        in
        pkgs.stdenv.mkDerivation {
          pname = "gdn";
          version = "@VERSION@";
          src = pkgs.fetchurl sources.${system};
          nativeBuildInputs = pkgs.lib.optional pkgs.stdenv.hostPlatform.isLinux pkgs.autoPatchelfHook;
          buildInputs = pkgs.lib.optional pkgs.stdenv.hostPlatform.isLinux pkgs.stdenv.cc.cc.lib;
          dontBuild = true;
          installPhase = ''
            mkdir -p $out
            cp -r bin share $out/
          '';
          meta = {
            description = "@SUMMARY@";
            homepage = "@HOMEPAGE@";
            license = with pkgs.lib.licenses; [ mit asl20 ];
            mainProgram = "gdn";
          };
        };
    in
    {
      packages = builtins.mapAttrs (system: _: { default = package system; }) sources;
    };
}
