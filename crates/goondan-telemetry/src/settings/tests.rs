use std::collections::BTreeMap;

use super::*;

fn read(variables: &[(&str, &str)]) -> Option<TelemetrySettings> {
    let variables: BTreeMap<_, _> = variables.iter().copied().collect();
    TelemetrySettings::read(|name| variables.get(name).map(|value| (*value).to_owned()))
}

fn url(variables: &[(&str, &str)]) -> Option<String> {
    read(variables)?
        .traces
        .map(|endpoint| endpoint.url.to_string())
}

#[test]
fn traces_are_not_exported_without_an_endpoint() {
    let settings = read(&[]).unwrap();
    assert!(settings.traces.is_none());
    assert!(settings.problems.is_empty());
    assert!(
        url(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).is_none(),
        "a blank endpoint counts as not set"
    );
    assert!(url(&[("OTEL_TRACES_EXPORTER", "otlp")]).is_none());
}

#[test]
fn a_traces_endpoint_is_complete_and_a_general_endpoint_is_a_base() {
    let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://host:4318");
    let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://other/my/path");
    assert_eq!(url(&[base]).unwrap(), "http://host:4318/v1/traces");
    assert_eq!(
        url(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://host/in/")]).unwrap(),
        "https://host/in/v1/traces"
    );
    assert_eq!(url(&[base, own]).unwrap(), "http://other/my/path");
}

#[test]
fn telemetry_can_be_switched_off() {
    let address = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://host");
    assert!(read(&[address, ("OTEL_SDK_DISABLED", "TRUE")]).is_none());
    assert!(url(&[address, ("OTEL_TRACES_EXPORTER", "none")]).is_none());
}

#[test]
fn invalid_settings_are_reported_and_disable_the_export() {
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "host:4318"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
    ] {
        let settings = read(
            &[
                ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ""),
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://host"),
            ]
            .into_iter()
            .filter(|(given, _)| *given != name)
            .chain([(name, value)])
            .collect::<Vec<_>>(),
        )
        .unwrap();
        assert!(settings.traces.is_none(), "{name}={value}");
        assert!(
            settings.problems[0].contains(name),
            "{:?}",
            settings.problems
        );
    }
}

#[test]
fn header_values_are_decoded_and_secret() {
    let address = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://host");
    let headers = (
        "OTEL_EXPORTER_OTLP_HEADERS",
        "authorization=Basic%20abc123, x-other = 1 ,broken",
    );
    let settings = read(&[address, headers]).unwrap();
    let secrets: Vec<_> = settings.secrets().collect();
    assert_eq!(
        secrets.iter().map(Secret::expose).collect::<Vec<_>>(),
        ["Basic abc123", "1"]
    );
    assert_eq!(settings.problems.len(), 1);
    assert!(
        !settings.problems[0].contains("broken") && !format!("{settings:?}").contains("abc123")
    );
}

#[test]
fn resource_attributes_are_read_from_the_environment() {
    let attributes = (
        "OTEL_RESOURCE_ATTRIBUTES",
        "service.name=a,deployment.environment.name=b%20c",
    );
    let settings = read(&[attributes, ("OTEL_SERVICE_NAME", "d")]).unwrap();
    assert_eq!(settings.resource["service.name"], "d");
    assert_eq!(settings.resource["deployment.environment.name"], "b c");
}

#[test]
fn invalid_numbers_are_ignored_and_reported() {
    let settings = read(&[
        ("OTEL_BSP_MAX_QUEUE_SIZE", "many"),
        ("OTEL_BSP_SCHEDULE_DELAY", "20"),
    ])
    .unwrap();
    assert_eq!(
        (settings.queue, settings.delay),
        (2_048, Duration::from_millis(20))
    );
    assert_eq!(settings.problems.len(), 1);
    assert_eq!(
        read(&[("OTEL_BSP_MAX_QUEUE_SIZE", "10")]).unwrap().batch,
        10,
        "the batch size is limited to the queue size"
    );
}

#[test]
fn the_sampling_ratio_depends_only_on_the_trace_id() {
    let sampler = |name, share| {
        read(&[
            ("OTEL_TRACES_SAMPLER", name),
            ("OTEL_TRACES_SAMPLER_ARG", share),
        ])
        .unwrap()
        .sampler
    };
    assert_eq!(
        sampler("parentbased_traceidratio", "0.25"),
        TraceSampler::Share(0.25)
    );
    assert_eq!(sampler("always_off", ""), TraceSampler::None);
    let (low, high) = (
        format!("{}3fffffffffffff", "f".repeat(18)),
        format!("{}40000000000000", "0".repeat(18)),
    );
    assert!(
        TraceSampler::Share(0.25).should_sample(&low)
            && !TraceSampler::Share(0.25).should_sample(&high)
    );
    assert!(
        TraceSampler::Share(1.0).should_sample(&"f".repeat(32))
            && !TraceSampler::Share(0.0).should_sample(&"0".repeat(32))
    );
}

#[test]
fn a_parent_based_sampler_follows_the_flag_of_the_caller() {
    let is_sampled = |sampler: &str, flags: &str| {
        let traceparent = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}");
        let caller =
            goondan_core::caller::CallerTrace::read(&traceparent, []).map(std::sync::Arc::new);
        let trace = TraceContext::root(&"f".repeat(32), None, "t").called_by(caller);
        read(&[("OTEL_TRACES_SAMPLER", sampler)])
            .unwrap()
            .takes(&trace)
    };
    assert!(is_sampled("", "01") && !is_sampled("", "00"));
    assert!(
        is_sampled("parentbased_always_off", "01")
            && is_sampled("always_on", "00")
            && !is_sampled("always_off", "01")
    );
}
