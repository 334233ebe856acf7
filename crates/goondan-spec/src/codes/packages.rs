//! Codes of packages that a project depends on, and of the road on which they come.

use super::shell;

codes! {
    /// A package that the project depends on is not installed.
    PACKAGE_NOT_INSTALLED = "E_PACKAGE_NOT_INSTALLED" {
        why: "The Package document names the dependency, but its files are not below `.goondan/installed` in the project. \
              After a checkout that is normal: the folder is not meant to be kept in git.",
        example: shell("gdn run\n", "gdn package install\ngdn run\n"),
        next: "Run `gdn package install`. Where all packages are in the cache, it needs no network.",
        more: Some("packages.md#install"),
    }
    /// The lock file does not say what the Package document asks for.
    PACKAGE_LOCK_OUTDATED = "E_PACKAGE_LOCK_OUTDATED" {
        why: "`goondan.lock.yaml` lacks a dependency, has a version that the range does not allow, or cannot be read. \
              Usually somebody changed `spec.dependencies` and did not install afterwards.",
        example: shell("gdn validate\n", "gdn package install\ngdn validate\n"),
        next: "Run `gdn package install`, and keep the lock file in git.",
        more: Some("packages.md#the-lock-file"),
    }
    /// The files of a package are not those that the lock file states.
    PACKAGE_INTEGRITY = "E_PACKAGE_INTEGRITY" {
        why: "An installed file was changed, added or removed, a cached archive was, or a registry delivers something else \
              than it did when the lock file was written.",
        example: shell("gdn run\n", "gdn package install\ngdn run\n"),
        next: "`gdn package install` installs the package anew. If the source itself delivers something else, find out why \
               before you accept it with `gdn package update`.",
        more: Some("packages.md#integrity"),
    }
    /// Packages need versions of another package that do not go together.
    PACKAGE_VERSION_CONFLICT = "E_PACKAGE_VERSION_CONFLICT" {
        why: "A project has one version of each package. Two packages want ranges of which no version is in both, or name \
              different sources for it.",
        next: "The message names who wants what. Use versions of these packages whose ranges meet, or name the source \
               yourself in the project's Package document.",
        more: Some("packages.md#versions"),
    }
    /// An archive was refused.
    PACKAGE_ARCHIVE = "E_PACKAGE_ARCHIVE" {
        why: "The archive of a package holds something that no package needs and an attack does: a path out of its folder, a \
              link, a device, two names that are one on some systems, or far more than its size suggests.",
        next: "Nothing of it was installed. Ask whoever published it. `gdn package pack` makes archives without such things.",
        more: Some("packages.md#archives"),
    }
    /// A package could not be had from its source.
    PACKAGE_SOURCE = "E_PACKAGE_SOURCE" {
        why: "The registry, the repository or the file does not answer, does not have the package, or has no version that fits.",
        next: "Check the `source` of the dependency, its version and the network. What is in the cache can be installed \
               with `--offline`.",
        more: Some("packages.md#sources"),
    }
    /// A registry wants to know who asks.
    PACKAGE_AUTH = "E_PACKAGE_AUTH" {
        why: "The registry refused the request without credentials, or with those that it got.",
        next: "Log in with `docker login HOST`, or set `GOONDAN_REGISTRY_AUTH`, or `GOONDAN_REGISTRY_TOKEN` for a registry of Goondan.",
        more: Some("packages.md#credentials"),
    }
    /// A package has nothing for this platform.
    PACKAGE_PLATFORM = "E_PACKAGE_PLATFORM" {
        why: "An entry with `{platform}` has a file or folder for each platform, and there is none for this one.",
        next: "Use a version of the package that supports the platform, or build the library and add it to the package.",
        more: Some("packages.md#platforms"),
    }
}
