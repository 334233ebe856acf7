//! Files of the project, for the studio's editor. The routes exist only if the server allows edits.

use std::sync::Arc;

use axum::{Extension, Json};

use super::ErrorResponses;
use crate::problem::{ApiProblem, JsonBody, QueryParams};
use crate::project_editor::ProjectEditor;
use crate::wire::{
    CheckedFileBody, EditedFileBody, ProjectFilePath, ProjectFilesBody, ProjectTextBody,
    SavedFileBody,
};

/// List the text files that the project loads.
#[utoipa::path(
    get,
    path = "/api/project/files",
    responses((status = 200, body = ProjectFilesBody), ErrorResponses),
)]
pub(super) async fn list(
    Extension(editor): Extension<Arc<dyn ProjectEditor>>,
) -> Result<Json<ProjectFilesBody>, ApiProblem> {
    Ok(Json(editor.list().await?))
}

/// Return a file of the project. Nothing in it is masked.
#[utoipa::path(
    get,
    path = "/api/project/file",
    params(ProjectFilePath),
    responses((status = 200, body = ProjectTextBody), ErrorResponses),
)]
pub(super) async fn read(
    Extension(editor): Extension<Arc<dyn ProjectEditor>>,
    QueryParams(file): QueryParams<ProjectFilePath>,
) -> Result<Json<ProjectTextBody>, ApiProblem> {
    Ok(Json(editor.read(file.path).await?))
}

/// Check the project with an edited file, without saving it.
#[utoipa::path(
    post,
    path = "/api/project/check",
    request_body = EditedFileBody,
    responses((status = 200, body = CheckedFileBody), ErrorResponses),
)]
pub(super) async fn check(
    Extension(editor): Extension<Arc<dyn ProjectEditor>>,
    JsonBody(edit): JsonBody<EditedFileBody>,
) -> Result<Json<CheckedFileBody>, ApiProblem> {
    Ok(Json(editor.check(edit).await?))
}

/// Save an edited file, or a new test case. Fails with status 412 if the file on disk has changed since it was read.
#[utoipa::path(
    put,
    path = "/api/project/file",
    request_body = EditedFileBody,
    responses((status = 200, body = SavedFileBody), ErrorResponses),
)]
pub(super) async fn save(
    Extension(editor): Extension<Arc<dyn ProjectEditor>>,
    JsonBody(edit): JsonBody<EditedFileBody>,
) -> Result<Json<SavedFileBody>, ApiProblem> {
    Ok(Json(editor.save(edit).await?))
}
