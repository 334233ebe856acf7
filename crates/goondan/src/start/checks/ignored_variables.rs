//! Variables that other programs read, but `gdn` does not.

use goondan_spec::{Bundle, Code, Diagnostic, Environment};

/// Variables with the URL of a provider's API, which the provider's own programs read.
const BASE_URLS: [(&str, &str); 2] = [
    ("anthropic", "ANTHROPIC_BASE_URL"),
    ("openai", "OPENAI_BASE_URL"),
];

/// Returns a warning for each model without an `endpoint` whose provider has a base URL in the
/// environment. `gdn` ignores the variable.
pub(crate) fn check(bundle: &Bundle, environment: &Environment) -> Vec<Diagnostic> {
    let models = bundle.models().values();
    models
        .filter(|model| model.spec.endpoint.is_none())
        .filter_map(|model| {
            let (_, variable) = BASE_URLS
                .iter()
                .find(|(provider, _)| *provider == model.spec.provider)?;
            environment
                .get(variable)
                .filter(|value| !value.trim().is_empty())?;
            let message = format!(
                "`{variable}` is set, but {} has no `endpoint` and calls the provider's own \
                    server.",
                model.id
            );
            let problem = Diagnostic::new(Code::IGNORED_VARIABLE, message)
                .of(&model.id)
                .field("spec.endpoint")
                .suggest(format!(
                    "write `endpoint` with the URL in `{variable}`, or remove the variable"
                ));
            Some(match &model.origin {
                Some((file, at)) => problem.in_file(file.clone()).at(*at),
                None => problem,
            })
        })
        .collect()
}
