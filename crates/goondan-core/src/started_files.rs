//! Files of a program that gdn starts from the configuration, such as the script of an MCP server.
//!
//! An approval of the program's tools covers the content of these files, and file tools ask before
//! they write one. The command line, the values of its variables, and the first lines of its scripts
//! are analyzed. A program may import other code from the directory of its script or from its working
//! directory, so all code there counts. For a program that no list contains, both directories and
//! those that its arguments name count.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::code_directory::{CodeDirectory, direct_code_files};
use crate::content_hash::{content_identity, whole_identity};
use crate::loaded_files::{
    LoadedCode, ProgramNames, has_inline_code, paths_in_settings, script_files,
};
use crate::program_search::{find_program, first_line_words, interpreters};
use crate::real_path::depends_on_process;
use crate::shell;
use crate::sourced_files::sourced_files;

/// Options whose value is a directory from which a program loads code, in the next word or in the
/// same one.
const CODE_OPTIONS: [&str; 10] = [
    "-I",
    "-L",
    "-cp",
    "-classpath",
    "--class-path",
    "--classpath",
    "--module-path",
    "--include",
    "--load",
    "--plugin",
];

/// Suffixes of files that a server writes itself, such as its database.
const DATA_SUFFIXES: [&str; 5] = ["db", "jsonl", "log", "sqlite", "sqlite3"];

/// Maximum number of letters in a cluster of short options.
const MAX_OPTION_LETTERS: usize = 16;

/// Maximum number of directories into which the command line of a program can change.
const MAX_DIRECTORIES: usize = 16;

/// Maximum number of paths that are searched for one program.
const MAX_SEARCHED_PATHS: usize = 4000;

/// A program of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct StartedProgram<'a> {
    /// Path of the program, or a name to search in `PATH`.
    pub command: &'a str,
    /// Arguments. A relative path starts from `folder`.
    pub args: &'a [String],
    /// Variables of the program by name. A program may load a file that a value names, such as that
    /// of `PYTHONSTARTUP`. Without `PATH`, that of gdn is searched.
    pub variables: &'a BTreeMap<String, String>,
    /// Working directory.
    pub folder: &'a Path,
    /// Directory of the project.
    pub project: &'a Path,
}

/// Content with which a program starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StartedFiles {
    /// Content of files and directories by path.
    pub contents: BTreeMap<String, String>,
    /// The command line contains an expansion, so it can also start other files. `contents` then
    /// identifies all files of the project.
    pub are_unknown: bool,
}

/// Places from which a program may load code.
#[derive(Debug, Default)]
pub struct LoadedPlaces {
    /// Existing files, directories of code, and possible files of scripts.
    pub files: BTreeSet<PathBuf>,
    /// Directories of the project that contain the working directory, with code.
    pub around: BTreeSet<PathBuf>,
    are_unknown: bool,
}

/// Words of a command line.
struct ProgramWords<'w> {
    programs: ProgramNames,
    loaded: LoadedCode<'w>,
    /// Words, and parts of words, that can be a path.
    pieces: Vec<String>,
    /// Directories in which the programs may run.
    folders: Vec<PathBuf>,
}

impl StartedProgram<'_> {
    /// Returns the existing files that the command line and the variables name, or that the programs
    /// load because of their names, such as `package.json`. Directories of code, the interpreters of
    /// scripts, and paths that lead to another file in the program's own process
    /// (`depends_on_process`) are included. Of a directory that contains the working directory, only
    /// the files directly in it are. Accesses the file system.
    pub fn files(&self) -> BTreeSet<PathBuf> {
        let LoadedPlaces {
            mut files, around, ..
        } = self.loaded_places();
        files.extend(around.iter().flat_map(|folder| direct_code_files(folder)));
        files
    }

    /// Returns the content of the program's files by path, including all code in directories that
    /// contain the working directory. Accesses the file system.
    pub fn contents(&self) -> StartedFiles {
        let places = self.loaded_places();
        let paths = places.files.union(&places.around);
        let mut contents: BTreeMap<String, String> = paths
            .map(|path| (path.display().to_string(), content_identity(path)))
            .collect();
        if places.are_unknown {
            let folders = [self.project, self.folder].into_iter();
            contents.extend(folders.map(|folder| {
                let identity = whole_identity(folder).unwrap_or_default();
                (folder.display().to_string(), identity)
            }));
        }
        StartedFiles {
            contents,
            are_unknown: places.are_unknown,
        }
    }

    /// Returns the paths of files that do not exist, and that the program would run or load in place
    /// of other files or next to them, such as `srv.js` for `node srv`. Accesses the file system.
    pub fn possible_files(&self) -> BTreeSet<PathBuf> {
        let texts = self.expanded_arguments();
        let words = self.words(&texts);
        let parsed = self.parse(&texts, &words);
        let is_file_name = |piece: &&String| {
            let name = Path::new(piece).file_name().unwrap_or_default();
            !piece.starts_with('-') && Path::new(name).extension().is_some()
        };
        let named_files = parsed.pieces.iter().filter(is_file_name);
        let named_files = named_files
            .flat_map(|piece| parsed.folders.iter().map(move |folder| folder.join(piece)));
        let command_files = parsed
            .programs
            .command_files(&self.with_parents(&parsed.folders));
        let is_possible = |path: &PathBuf| {
            !path.exists() && !is_data(path) && is_below(path, &[self.project, self.folder])
        };
        let possible = parsed
            .implied_files()
            .chain(command_files)
            .chain(named_files);
        possible.filter(is_possible).collect()
    }

    /// Returns the files in all directories around the working directory that define the commands of
    /// the programs, such as `Cargo.toml`. They may not exist.
    pub fn command_files_around(&self) -> Vec<PathBuf> {
        let texts = self.expanded_arguments();
        let programs = ProgramNames::of(self.words(&texts).into_iter());
        let folders: Vec<PathBuf> = self.folder.ancestors().map(Path::to_owned).collect();
        programs.command_files(&folders)
    }

    /// Returns the arguments with the values of variables.
    fn expanded_arguments(&self) -> Vec<String> {
        let arguments = self.args.iter();
        arguments.map(|arg| self.expand_variables(arg)).collect()
    }

    /// Returns the command, followed by the words of the arguments, whose variables are expanded.
    fn words<'w>(&'w self, texts: &'w [String]) -> Vec<&'w str> {
        let arguments = texts.iter().flat_map(|arg| command_words(arg));
        std::iter::once(self.command).chain(arguments).collect()
    }

    /// Parses the words of the command line. Accesses the file system.
    fn parse<'w>(&self, texts: &[String], words: &[&'w str]) -> ProgramWords<'w> {
        // An argument may also be a whole path with blanks.
        let arguments = texts.iter().map(String::as_str);
        let values = self.variables.values().map(String::as_str);
        let values = values.flat_map(|value| std::iter::once(value).chain(command_words(value)));
        let named_paths = arguments.chain(words.iter().copied().skip(1)).chain(values);
        let pieces: Vec<String> = named_paths
            .flat_map(pieces)
            .take(MAX_SEARCHED_PATHS)
            .collect();
        ProgramWords {
            programs: ProgramNames::of(words.iter().copied()),
            loaded: LoadedCode::of(words),
            folders: self.directories(&pieces),
            pieces,
        }
    }

    /// Returns the files and directories from which the command line loads code. Follows paths in
    /// scripts and settings.
    pub fn loaded_places(&self) -> LoadedPlaces {
        let texts = self.expanded_arguments();
        let words = self.words(&texts);
        let parsed = self.parse(&texts, &words);
        let mut paths: Vec<PathBuf> = parsed.implied_files().collect();
        let is_unknown = parsed.is_unknown();
        let ProgramWords {
            programs,
            loaded,
            pieces,
            folders,
        } = parsed;
        for folder in &folders {
            paths.extend(pieces.iter().map(|piece| folder.join(piece)));
        }
        let is_relevant =
            |path: &PathBuf| (path.is_file() && !is_data(path)) || depends_on_process(path);
        let mut files: BTreeSet<PathBuf> = paths.into_iter().filter(is_relevant).collect();
        files.extend(self.program_file());
        let mut directories = self.stated_directories(&texts);
        let script_words: Vec<String> = files
            .iter()
            .flat_map(|file| first_line_words(file))
            .collect();
        let interpreters_of_scripts = ProgramNames::of(script_words.iter().map(String::as_str));
        let imports_code = programs.import_code() || interpreters_of_scripts.import_code();
        if imports_code || is_unknown {
            directories.extend(
                files
                    .iter()
                    .filter_map(|file| Some(file.parent()?.to_owned())),
            );
            directories.extend(folders.iter().skip(1).cloned());
            if is_unknown || files.is_empty() || has_inline_code(words.iter().copied()) {
                directories.push(self.folder.to_owned());
            }
        }
        if let LoadedCode::Directories(words) = &loaded {
            let named_paths = words.iter().flat_map(|word| self::pieces(word));
            directories.extend(named_paths.map(|path| self.folder.join(path)));
        }
        let packages = |folder: &PathBuf| -> Vec<PathBuf> {
            let names = pieces.iter();
            names
                .filter_map(|name| programs.package_directories(folder, name))
                .collect()
        };
        directories.extend(folders.iter().flat_map(packages));
        let command_files = programs.command_files(&self.with_parents(&folders));
        for file in command_files.into_iter().filter(|path| path.is_file()) {
            let file_folder = file.parent().unwrap_or(self.folder);
            let named_paths = paths_in_settings(&file, file_folder).into_iter();
            let is_own = |path: &PathBuf| is_below(path, &[self.project, self.folder]);
            files.extend(
                named_paths.filter(|path| path.is_file() && !is_data(path) && is_own(path)),
            );
            files.insert(file);
        }
        files.extend(interpreters(&files, &folders, self.search_path()));
        let line = [&[self.command.to_owned()], texts.as_slice()]
            .concat()
            .join(" ");
        let sourced = sourced_files(&[line], &files, &folders, self.project);
        files.extend(sourced.files.into_iter().chain(sourced.missing));
        let all_words = std::iter::once(self.command).chain(texts.iter().map(String::as_str));
        let runs_unknown_files = shell::runs_unknown_files(&shell::quoted_line(all_words));
        let has_shell = programs.have_shell() || words.iter().any(|word| word.starts_with("-S"));
        let is_expanded = has_shell && texts.iter().any(|text| has_expansion(text));
        if runs_unknown_files || is_expanded {
            files.extend(self.places_of_names(&pieces));
        }
        let mut places = LoadedPlaces {
            files,
            around: BTreeSet::new(),
            are_unknown: runs_unknown_files || sourced.are_unknown || is_expanded,
        };
        self.add_directories(directories, &mut places);
        places
    }

    /// Returns the places of files that a line runs without naming them: directories that it names,
    /// also before a pattern, and the files in the lists that it names.
    fn places_of_names(&self, pieces: &[String]) -> BTreeSet<PathBuf> {
        let before_pattern = |piece: &String| {
            let end = piece.find(['*', '?', '[', '{', '$']).unwrap_or(piece.len());
            self.folder.join(&piece[..end])
        };
        let named_paths: BTreeSet<PathBuf> = pieces.iter().map(before_pattern).collect();
        let lists = named_paths.iter().filter(|path| path.is_file());
        let listed_paths = lists.flat_map(|path| paths_in_settings(path, self.folder));
        let files = listed_paths.filter(|path| path.is_file() && !is_data(path));
        let directories = named_paths.iter().filter(|path| path.is_dir()).cloned();
        let is_own =
            |path: &PathBuf| path != self.folder && is_below(path, &[self.project, self.folder]);
        directories.chain(files).filter(is_own).collect()
    }

    /// Adds the directories that contain code of the project.
    fn add_directories(&self, directories: Vec<PathBuf>, places: &mut LoadedPlaces) {
        let directories: BTreeSet<PathBuf> = directories.into_iter().collect();
        for path in directories {
            match CodePlace::of(&path, self.folder, &[self.project, self.folder]) {
                CodePlace::Directory => drop(places.files.insert(path)),
                // A program writes data in directories above the project.
                CodePlace::ContainsWorkdir if is_below(&path, &[self.project]) => {
                    places.around.insert(path);
                }
                CodePlace::ContainsWorkdir | CodePlace::Other => {}
            }
        }
    }

    /// Returns an argument with the values of variables that a shell would insert.
    fn expand_variables(&self, argument: &str) -> String {
        let own_variables = [("PWD", self.folder.display().to_string())];
        let inherited = ["HOME", "TMPDIR", "USER"];
        let inherited = inherited.map(|name| (name, std::env::var(name).unwrap_or_default()));
        let stated_variables = self.variables.iter();
        let stated_variables = stated_variables.map(|(name, value)| (name.as_str(), value.clone()));
        let mut text = argument.to_owned();
        for (name, value) in own_variables
            .into_iter()
            .chain(stated_variables)
            .chain(inherited)
        {
            text = with_value(&text, name, &value);
        }
        let folder = self.folder.display().to_string();
        text.replace("$(pwd)", &folder).replace("`pwd`", &folder)
    }

    fn search_path(&self) -> Option<&OsStr> {
        self.variables.get("PATH").map(OsStr::new)
    }

    /// Returns the file of the command. A command without a slash is a program of the machine,
    /// unless the search path leads into the project.
    fn program_file(&self) -> Option<PathBuf> {
        if self.command.contains('/') {
            return Some(self.folder.join(self.command)).filter(|file| file.is_file());
        }
        let program = find_program(self.command, self.search_path(), self.folder)?;
        is_below(&program, &[self.project, self.folder]).then_some(program)
    }

    /// Returns the paths that variables and options name, which can be directories of code.
    fn stated_directories(&self, texts: &[String]) -> Vec<PathBuf> {
        let words = texts.iter().flat_map(|arg| command_words(arg));
        let mut named_directories: Vec<String> = code_options(words);
        for value in self.variables.values() {
            named_directories.push(value.clone());
            named_directories.extend(command_words(value).map(str::to_owned));
        }
        let paths = named_directories.iter().flat_map(|text| pieces(text));
        let paths = paths.take(MAX_SEARCHED_PATHS);
        paths.map(|path| self.folder.join(path)).collect()
    }

    /// Returns the working directory and the directories that the command line names. A program may
    /// change into a named directory, as `make -C` does.
    fn directories(&self, pieces: &[String]) -> Vec<PathBuf> {
        let named_directories = pieces.iter().map(|piece| self.folder.join(piece));
        let mut folders = vec![self.folder.to_owned()];
        for path in named_directories.filter(|path| path.is_dir()) {
            if folders.len() < MAX_DIRECTORIES && !folders.contains(&path) {
                folders.push(path);
            }
        }
        folders
    }

    /// Returns the directories, and those around them up to the project. Package managers search all
    /// of them for their settings.
    fn with_parents(&self, folders: &[PathBuf]) -> Vec<PathBuf> {
        let parents = folders.iter().flat_map(|folder| {
            let above = folder.ancestors().skip(1);
            above.take_while(|path| path.starts_with(self.project))
        });
        let folders_and_parents = folders.iter().map(PathBuf::as_path).chain(parents);
        let unique: BTreeSet<PathBuf> = folders_and_parents.map(Path::to_owned).collect();
        unique.into_iter().collect()
    }
}

impl ProgramWords<'_> {
    /// Returns true if no list contains the program, so it may load any code.
    fn is_unknown(&self) -> bool {
        self.loaded == LoadedCode::Everything && !self.programs.import_code()
    }

    /// Returns the files that the programs load for a name that is no path of a file. They may not
    /// exist.
    fn implied_files(&self) -> impl Iterator<Item = PathBuf> {
        let is_unknown = self.is_unknown();
        let files = move |folder: &PathBuf, piece: &String| {
            let mut files = self.programs.implied_files(folder, piece);
            if is_unknown {
                files.extend(script_files(folder, piece));
            }
            files
        };
        let folders = self.folders.iter();
        folders.flat_map(move |folder| {
            let pieces = self.pieces.iter();
            pieces.flat_map(move |piece| files(folder, piece))
        })
    }
}

/// Returns the text with the value of a variable in place of its name.
fn with_value(text: &str, name: &str, value: &str) -> String {
    let text = text.replace(&format!("${{{name}}}"), value);
    let sign = format!("${name}");
    let mut result = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find(&sign) {
        let after = &rest[at + sign.len()..];
        let is_longer = after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        result.push_str(&rest[..at]);
        result.push_str(if is_longer { &sign } else { value });
        rest = after;
    }
    result + rest
}

/// Returns true if the text contains an expansion of a shell whose result is unknown, such as `$X`,
/// `$(…)`, `~+`, `{a,b}` or `[s]elf`.
pub fn has_expansion(text: &str) -> bool {
    let is_pattern = |(at, _): (usize, &str)| {
        let after = &text[at + 1..];
        after.starts_with(|c: char| !c.is_whitespace() && c != '[') && after.contains(']')
    };
    text.contains(['$', '`', '*', '?'])
        || ["~+", "~-"].iter().any(|part| text.contains(part))
        || (text.contains('{') && text.contains([',', '.']))
        || text.match_indices('[').any(is_pattern)
}

/// Meaning of a path that a variable or an option names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CodePlace {
    /// Anything else, such as a directory of the machine.
    Other,
    /// A directory with code, in which a sandboxed program or a file tool may write.
    Directory,
    /// The working directory, or a directory above it.
    ContainsWorkdir,
}

impl CodePlace {
    /// Classifies a path. `folder` is the working directory, and `own` are the directories of the
    /// project. Accesses the file system.
    pub fn of(path: &Path, folder: &Path, own: &[&Path]) -> CodePlace {
        let temporary = std::env::temp_dir();
        let is_own = is_below(path, own)
            || path.is_dir() && path != temporary && is_below(path, &[&temporary]);
        let Some(real) = path
            .canonicalize()
            .ok()
            .filter(|real| is_own && real.is_dir())
        else {
            return CodePlace::Other;
        };
        if folder
            .canonicalize()
            .is_ok_and(|folder| folder.starts_with(&real))
        {
            return CodePlace::ContainsWorkdir;
        }
        // A directory with too many entries may contain code.
        if CodeDirectory::read(&real).is_none_or(|code| !code.files.is_empty()) {
            CodePlace::Directory
        } else {
            CodePlace::Other
        }
    }
}

/// Returns true if `path` is in one of `folders`, by its name or through links.
pub fn is_below(path: &Path, folders: &[&Path]) -> bool {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    folders.iter().any(|folder| {
        let real_folder = folder.canonicalize();
        path.starts_with(folder) || real_folder.is_ok_and(|folder| real.starts_with(folder))
    })
}

/// Returns the words that are options for a directory of code, and the words that follow one.
pub fn code_options<'w>(words: impl Iterator<Item = &'w str>) -> Vec<String> {
    let mut is_after_option = false;
    let is_named = |word: &&str| {
        let is_option = CODE_OPTIONS.iter().any(|option| word.starts_with(option));
        let is_value = std::mem::replace(&mut is_after_option, is_option);
        is_option || is_value
    };
    words.filter(is_named).map(str::to_owned).collect()
}

/// Returns the words of an argument, which can be a command line.
pub fn command_words(argument: &str) -> impl Iterator<Item = &str> {
    let is_separator = |c: char| c.is_whitespace() || ";&|()<>'\"".contains(c);
    argument.split(is_separator).filter(|word| !word.is_empty())
}

/// Returns true if the name is that of a file which a program writes, such as its database.
pub(crate) fn is_data(path: &Path) -> bool {
    let suffix = path.extension().map(|suffix| suffix.to_ascii_lowercase());
    suffix.is_some_and(|suffix| DATA_SUFFIXES.iter().any(|data| suffix == *data))
}

/// Returns a word, and the parts of the word that can be a path: after separators and option
/// prefixes.
pub fn pieces(word: &str) -> Vec<String> {
    const SEPARATORS: [&[char]; 7] = [
        &['='],
        &[','],
        &[':'],
        &['=', ','],
        &['=', ':'],
        &[',', ':'],
        &['=', ',', ':'],
    ];
    let texts = [Some(word), word.split_once('=').map(|(_, rest)| rest)];
    let cut = |text: &'_ str| -> Vec<String> {
        let cut = SEPARATORS.iter().flat_map(|ends| text.split(*ends));
        std::iter::once(text)
            .chain(cut)
            .map(str::to_owned)
            .collect()
    };
    let mut pieces = Vec::new();
    for piece in texts.into_iter().flatten().flat_map(cut) {
        let behind_signs = piece.trim_start_matches(['-', '=', '+', '?', '@']);
        // `./srv#app` names a part of the package in `./srv`.
        let before_part = piece.split_once('#').map(|(before, _)| before);
        let ways = [piece.as_str(), behind_signs].into_iter();
        let option_pieces = ways
            .chain(before_part)
            .chain(option_values(&piece))
            .filter(|way| !way.is_empty());
        pieces.extend(option_pieces.map(str::to_owned));
    }
    pieces
}

/// Returns the possible values in a cluster of short options, because any letter can be the option
/// that takes a value: `fx.mk`, `x.mk` and `.mk` for `-sfx.mk`.
fn option_values(word: &str) -> impl Iterator<Item = &str> {
    let cluster = word.strip_prefix('-').unwrap_or_default();
    let letters = cluster.bytes().take_while(u8::is_ascii_alphanumeric);
    let option_lengths = 1..=letters.count().min(MAX_OPTION_LETTERS);
    option_lengths.map(|end| &cluster[end..])
}

#[cfg(test)]
mod tests;
