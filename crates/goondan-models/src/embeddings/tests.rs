use super::*;

fn texts() -> Vec<String> {
    vec!["cats".to_owned(), String::new()]
}

#[test]
fn embedding_requests_follow_the_wire_format() {
    let openai = (
        "embeddings".to_owned(),
        json!({"model": "m", "input": ["cats", ""]}),
    );
    assert_eq!(
        request(ProviderWireFormat::Chat, "m", &texts()),
        Some(openai.clone())
    );
    assert_eq!(
        request(ProviderWireFormat::Responses, "m", &texts()),
        Some(openai)
    );
    let ollama = (
        "api/embed".to_owned(),
        json!({"model": "m", "input": ["cats", ""]}),
    );
    assert_eq!(
        request(ProviderWireFormat::Ollama, "m", &texts()),
        Some(ollama)
    );
    let one = |text: &str| json!({"model": "models/m", "content": {"parts": [{"text": text}]}, "taskType": "SEMANTIC_SIMILARITY"});
    let gemini = (
        "models/m:batchEmbedContents".to_owned(),
        json!({"requests": [one("cats"), one(" ")]}),
    );
    assert_eq!(
        request(ProviderWireFormat::Gemini, "m", &texts()),
        Some(gemini.clone())
    );
    assert_eq!(
        request(ProviderWireFormat::Gemini, "models/m", &texts()),
        Some(gemini)
    );
    for wire in [ProviderWireFormat::Anthropic, ProviderWireFormat::Converse] {
        assert_eq!(request(wire, "m", &texts()), None);
    }
}

#[test]
fn embedding_vectors_follow_the_input_order() {
    let vectors = vec![vec![1.0, 0.5], vec![-0.25, 0.0]];
    for (wire, answer) in [
        (
            ProviderWireFormat::Chat,
            json!({"object": "list", "data": [
                {"object": "embedding", "index": 1, "embedding": [-0.25, 0]},
                {"object": "embedding", "index": 0, "embedding": [1, 0.5]},
            ]}),
        ),
        (
            ProviderWireFormat::Responses,
            json!({"data": [{"embedding": [1, 0.5]}, {"embedding": [-0.25, 0]}]}),
        ),
        (
            ProviderWireFormat::Ollama,
            json!({"model": "m", "embeddings": [[1.0, 0.5], [-0.25, 0]], "prompt_eval_count": 2}),
        ),
        (
            ProviderWireFormat::Gemini,
            json!({"embeddings": [{"values": [1, 0.5]}, {"values": [-0.25, 0.0]}]}),
        ),
    ] {
        assert_eq!(decode(wire, &answer).expect("vectors"), vectors, "{answer}");
    }
}

#[test]
fn error_bodies_and_unknown_shapes_are_not_decoded_as_vectors() {
    for wire in [
        ProviderWireFormat::Chat,
        ProviderWireFormat::Ollama,
        ProviderWireFormat::Gemini,
    ] {
        let reported = decode(
            wire,
            &json!({"error": {"message": "no such model", "code": 404}}),
        );
        match reported {
            Err(ProviderError::Reported(error)) => assert_eq!(error.message, "no such model"),
            other => panic!("{other:?}"),
        }
        for body in [
            json!({"data": "none"}),
            json!({}),
            json!(null),
            json!({"embeddings": [{"x": 1}]}),
        ] {
            let shape = decode(wire, &body);
            assert!(
                matches!(shape, Err(ProviderError::Unreadable(_))),
                "{body}: {shape:?}"
            );
        }
    }
}
