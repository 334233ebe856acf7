//! Context windows of well-known models, in tokens.

use super::ModelProvider;

/// Beginning of a model's name, without the vendor, and the window. The first match counts.
const WINDOWS: &[(&str, u64)] = &[
    ("claude", 200_000),
    ("codestral", 128_000),
    ("command-r", 128_000),
    ("deepseek", 128_000),
    ("devstral", 128_000),
    ("gemini", 1_048_576),
    ("glm-4.5", 128_000),
    ("glm", 200_000),
    ("gpt-3.5", 16_385),
    ("gpt-4.1", 1_047_576),
    ("gpt-4-turbo", 128_000),
    ("gpt-4o", 128_000),
    ("gpt-4", 8_192),
    ("gpt-5", 400_000),
    ("gpt-oss", 131_072),
    ("grok-3", 131_072),
    ("grok", 256_000),
    ("kimi-k2", 131_072),
    // Llama 3 itself, unlike 3.1 and later.
    ("llama-3-1-", 128_000),
    ("llama-3-2-", 128_000),
    ("llama-3-3-", 128_000),
    ("llama-3-", 8_192),
    ("llama-3", 128_000),
    ("llama3-1-", 128_000),
    ("llama3-2-", 128_000),
    ("llama3-3-", 128_000),
    ("llama3-", 8_192),
    ("llama3", 128_000),
    ("minimax-m2", 200_000),
    ("mistral", 128_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4", 200_000),
    ("qwen3-coder", 262_144),
    ("qwen3", 131_072),
];

/// Returns the context window of a model; `None` if it is not known.
pub(crate) fn context_window(provider: &ModelProvider, model: &str) -> Option<u64> {
    // A provider without a key is the user's own server, whose settings decide the window.
    provider.key_variable.as_ref()?;
    window_of(model)
}

/// Returns the window of a model by its name, such as `vendor/name` or `vendor.name`.
fn window_of(model: &str) -> Option<u64> {
    let name = model.to_ascii_lowercase();
    let starts =
        std::iter::once(0).chain(name.match_indices(['/', '.', ':']).map(|(at, _)| at + 1));
    starts
        .filter_map(|start| {
            let row = WINDOWS
                .iter()
                .find(|(prefix, _)| name[start..].starts_with(prefix));
            row.map(|(_, window)| *window)
        })
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_windows_are_found_for_names_with_a_vendor_prefix() {
        for (model, window) in [
            ("claude-sonnet-4-5", Some(200_000)),
            ("eu.anthropic.claude-sonnet-4-5-v1:0", Some(200_000)),
            ("openai/gpt-4.1-mini", Some(1_047_576)),
            ("gpt-4o-mini", Some(128_000)),
            ("gpt-4-0613", Some(8_192)),
            ("meta.llama3-8b-instruct-v1:0", Some(8_192)),
            ("meta.llama3-1-8b-instruct-v1:0", Some(128_000)),
            ("meta-llama/llama-3-70b-instruct", Some(8_192)),
            ("meta-llama/llama-3-3-70b-instruct", Some(128_000)),
            ("meta-llama/llama-3.3-70b-instruct", Some(128_000)),
            ("llama3.1-8b", Some(128_000)),
            ("house-model", None),
        ] {
            assert_eq!(window_of(model), window, "{model}");
        }
    }

    #[test]
    fn local_servers_have_no_default_context_window() {
        for (name, window) in [
            ("ollama", None),
            ("llamacpp", None),
            ("lmstudio", None),
            ("vllm", None),
            ("openai-compatible", None),
            ("ollama-cloud", Some(131_072)),
        ] {
            let provider = crate::provider::provider(name).unwrap();
            assert_eq!(context_window(provider, "gpt-oss:20b"), window, "{name}");
        }
    }
}
