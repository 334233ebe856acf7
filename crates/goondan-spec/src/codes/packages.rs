//! Codes of package dependencies, and of their installation.

use super::shell;

codes! {
    /// A package that the project depends on is not installed.
    PACKAGE_NOT_INSTALLED = "E_PACKAGE_NOT_INSTALLED" {
        why: "The Package document lists the dependency, but its files are not below \
            `.goondan/installed` in the \
              project. This is normal after a checkout, because git should not contain this \
            directory.",
        example: shell("gdn run\n", "gdn package install\ngdn run\n"),
        next: "Run `gdn package install`. If all packages are in the cache, it needs no network.",
        more: Some("packages.md#install"),
    }
    /// The lockfile does not match the Package document.
    PACKAGE_LOCK_OUTDATED = "E_PACKAGE_LOCK_OUTDATED" {
        why: "`goondan.lock.yaml` lacks a dependency, has a version outside the range, or cannot \
            be read. The usual \
              cause is a change of `spec.dependencies` without a new installation.",
        example: shell("gdn validate\n", "gdn package install\ngdn validate\n"),
        next: "Run `gdn package install`, and commit the lockfile to git.",
        more: Some("packages.md#the-lock-file"),
    }
    /// The files of a package do not match the lockfile.
    PACKAGE_INTEGRITY = "E_PACKAGE_INTEGRITY" {
        why: "An installed file or a cached archive was changed, added or removed. Or a registry \
            delivers other \
              content than at the time of the lockfile.",
        example: shell("gdn run\n", "gdn package install\ngdn run\n"),
        next: "Run `gdn package install` to reinstall the package. If the source itself delivers \
            other content, find \
              out why before you accept it with `gdn package update`.",
        more: Some("packages.md#integrity"),
    }
    /// Packages need incompatible versions of another package.
    PACKAGE_VERSION_CONFLICT = "E_PACKAGE_VERSION_CONFLICT" {
        why: "A project can use only one version of each package. Two packages need version ranges \
            that do not \
              overlap, or name different sources for it.",
        next: "Use versions of these packages whose ranges overlap, or set the source in the \
            project's Package \
              document. The message lists the packages and their ranges.",
        more: Some("packages.md#versions"),
    }
    /// A package archive has unsafe contents, so it was refused.
    PACKAGE_ARCHIVE = "E_PACKAGE_ARCHIVE" {
        why: "The archive contains entries that are typical of an attack. Examples are a path \
            outside its directory, a \
              link, a device, names that collide on some systems, or data far larger than the \
            archive suggests.",
        next: "Report the archive to its publisher, who can create a safe one with `gdn package \
            pack`. Nothing was \
              installed.",
        more: Some("packages.md#archives"),
    }
    /// A package could not be fetched from its source.
    PACKAGE_SOURCE = "E_PACKAGE_SOURCE" {
        why: "The registry, the repository or the file cannot be reached, does not contain the \
            package, or has no \
              matching version.",
        next: "Check the `source` and the version of the dependency, and the network. To install \
            from the cache, run \
              `gdn package install --offline`.",
        more: Some("packages.md#sources"),
    }
    /// A registry requires credentials.
    PACKAGE_AUTH = "E_PACKAGE_AUTH" {
        why: "The registry refused the request because it had no credentials or wrong ones.",
        next: "Log in with `docker login HOST`, or set `GOONDAN_REGISTRY_AUTH`. For a Goondan \
            registry, set \
              `GOONDAN_REGISTRY_TOKEN`.",
        more: Some("packages.md#credentials"),
    }
    /// A package does not support this platform.
    PACKAGE_PLATFORM = "E_PACKAGE_PLATFORM" {
        why: "An entry with `{platform}` has a file or directory per platform, but none for this \
            platform.",
        next: "Use a version of the package that supports the platform, or build the library and \
            add it to the \
              package.",
        more: Some("packages.md#platforms"),
    }
}
