//! Bodies about the files of the project: its test cases, and edits in the studio.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Features of the studio that depend on the options of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StudioFeaturesBody {
    /// True if the server can list and run the test cases of the project.
    pub cases: bool,
    /// True if the server can edit files of the project.
    pub edit: bool,
}

/// Test cases of the project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CasesBody {
    /// Test cases, sorted by file and line.
    pub cases: Vec<CaseSummaryBody>,
    /// Errors in test case files.
    pub errors: Vec<FileFindingBody>,
}

/// A test case in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaseSummaryBody {
    /// Name of the test case.
    pub name: String,
    /// Purpose of the test case.
    pub about: String,
    /// File, relative to the project directory.
    pub file: String,
    /// Line of its name, from 1.
    pub line: usize,
    /// True if the test case only runs with real models, so it is skipped here.
    pub is_live_only: bool,
}

/// Test cases to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CaseRunBody {
    /// Names of the test cases. Default: all.
    #[serde(default)]
    pub cases: Vec<String>,
}

/// Outcome of a test case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CaseOutcomeBody {
    /// All expectations are met.
    Passed,
    /// At least one expectation is not met.
    Failed,
    /// The test case cannot run here.
    Skipped,
}

/// Result of a test case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaseResultBody {
    /// Name of the test case.
    pub name: String,
    /// Outcome.
    pub outcome: CaseOutcomeBody,
    /// Duration in milliseconds.
    pub duration_ms: u64,
    /// Reason why it was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Expectations that are not met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<CaseFailureBody>,
}

/// An expectation that is not met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CaseFailureBody {
    /// Place of the check: a step, a part of `expect`, or an invariant.
    pub place: String,
    /// Failure message.
    pub message: String,
    /// Differences, if values were compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<CaseDifferenceBody>,
}

/// A difference between a value and its expectation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CaseDifferenceBody {
    /// Path of the value, such as `output.tools[0].name`; empty for the whole value.
    pub path: String,
    /// Expected value.
    pub expected: String,
    /// Actual value.
    pub actual: String,
    /// Line diff with `-` (expected) and `+` (actual).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// Numbers of test cases by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CaseTotalsBody {
    /// Passed test cases.
    pub passed: usize,
    /// Failed test cases.
    pub failed: usize,
    /// Test cases that cannot run here.
    pub skipped: usize,
}

/// Kind of a project file that can be edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProjectFileKind {
    /// YAML with resources.
    Resources,
    /// Prompt, or another text that a resource names.
    Text,
    /// `AGENTS.md`, or another file with instructions for agents.
    Instructions,
    /// `SKILL.md` of a skill.
    Skill,
    /// Test cases.
    Cases,
}

/// Project files that can be edited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectFilesBody {
    /// Files, sorted by path.
    pub files: Vec<ProjectFileBody>,
}

/// A project file that can be edited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectFileBody {
    /// Path relative to the project directory, with `/` as the separator.
    pub path: String,
    /// Kind of the file.
    pub kind: ProjectFileKind,
}

/// Path of a project file.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ProjectFilePath {
    /// Path relative to the project directory, with `/` as the separator.
    pub path: String,
}

/// Content of a project file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectTextBody {
    /// Path relative to the project directory.
    pub path: String,
    /// The whole text. Nothing in it is masked.
    pub text: String,
    /// Hash of the file, for saving.
    pub hash: String,
}

/// An edited project file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EditedFileBody {
    /// Path relative to the project directory.
    pub path: String,
    /// The new text.
    pub text: String,
    /// Hash of the file that was edited. Empty to create a test case.
    pub hash: String,
}

/// Result of checking an edited file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckedFileBody {
    /// Errors and warnings of the project with the edited text.
    pub findings: Vec<FileFindingBody>,
    /// Changes compared with the file on disk, as a unified diff. Empty without changes.
    pub diff: String,
    /// Hash of the file on disk. Empty for a new test case.
    pub hash: String,
}

/// A saved project file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SavedFileBody {
    /// Hash of the file, for the next edit.
    pub hash: String,
}

/// An error or a warning about a project file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileFindingBody {
    /// `error` or `warning`.
    pub severity: String,
    /// Stable error code. Errors in test case files have no code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Message, a complete sentence.
    pub message: String,
    /// File, relative to the project directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Column in characters, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// Suggested next step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}
