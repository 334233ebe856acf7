# Restricts imports of modules in the project. Libraries try to import optional modules: `pickle` in the standard library imports `org`.
# A new project file with such a name must not run. Only project code can import project modules by name. Libraries can import such a module
# only if a project file contains its name in quotes, as in `"settings.production"`.
import importlib.machinery
import os
import re
import sys

# Directories to search for project modules.
_module_directories = []
# Directories in the project that contain installed libraries.
_INSTALLED = re.compile(r"[/\\](site-packages|dist-packages)[/\\]")
_LOADERS = (
    (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),
    (importlib.machinery.SourceFileLoader, importlib.machinery.SOURCE_SUFFIXES),
    (importlib.machinery.SourcelessFileLoader, importlib.machinery.BYTECODE_SUFFIXES),
)
_source_texts = {}
_refused = set()


def add_module_directory(directory):
    """Adds a directory to search for modules. Installed modules come first, so that no project file replaces them."""
    if directory in _module_directories:
        return
    _module_directories.append(directory)
    sys.path_importer_cache.pop(directory, None)
    if directory not in sys.path:
        sys.path.append(directory)


class _ProjectFinder(importlib.machinery.FileFinder):
    def find_spec(self, fullname, target=None):
        spec = super().find_spec(fullname, target)
        # The check of the parent package also covers its submodules.
        if spec is None or "." in fullname or _is_project_file(_importer()) or _is_quoted_in_project(fullname):
            return spec
        if fullname not in _refused:
            _refused.add(fullname)
            text = "The file of module `%s` in the project was not loaded, because a library imports it. If that is intended, import the module in a file of the project."
            log(None, "warn", text % fullname)
        return None


def _make_finder(directory):
    if directory not in _module_directories:
        raise ImportError
    return _ProjectFinder(directory, *_LOADERS)


sys.path_hooks.insert(0, _make_finder)


def _importer():
    """Returns the file with the import, ignoring frames of the import system."""
    frame = sys._getframe(2)
    library = os.path.dirname(importlib.__file__)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith("<") and os.path.dirname(file) != library:
            return file
        frame = frame.f_back
    return ""


def _is_project_file(file):
    """Returns true for project code, and for this program, which loads the handler files."""
    if file == __file__:
        return True
    is_in_project = any(file.startswith(os.path.join(directory, "")) for directory in _module_directories)
    return is_in_project and not _INSTALLED.search(file)


def _is_quoted_in_project(name):
    """Returns true if a loaded project file contains the module name in quotes."""
    pattern = re.compile(r"""["']%s["'.]""" % re.escape(name))
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return any(pattern.search(_source_text(file)) for file in files if file and file != __file__ and _is_project_file(file))


def _source_text(file):
    if file not in _source_texts:
        try:
            with open(file, encoding="utf-8", errors="replace") as text:
                _source_texts[file] = text.read()
        except OSError:
            _source_texts[file] = ""
    return _source_texts[file]
