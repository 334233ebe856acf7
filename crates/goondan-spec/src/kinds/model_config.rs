//! `spec.modelConfig` of an Agent: which models it uses, and how.

use schemars::JsonSchema;

use super::Scope;
use crate::decode::Field;
use crate::findings::Findings;
use crate::meta::Kind;
use crate::references::{self, ItemShape, RefShape};
use crate::{JsonObject, ResourceId};

/// Sampling settings; what is absent is left to the provider.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelParams {
    /// 0 to 2.
    pub temperature: Option<f64>,
    /// More than 0.
    pub max_tokens: Option<u32>,
    /// More than 0, at most 1.
    pub top_p: Option<f64>,
    /// Everything else, for the client to use or ignore.
    pub other: JsonObject,
}

/// `spec.modelConfig`.
pub(super) struct ModelConfig {
    pub(super) model: ResourceId,
    pub(super) fallbacks: Vec<ResourceId>,
    pub(super) params: ModelParams,
}

pub(super) fn read(
    field: &Field<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<ModelConfig> {
    let mut fields = field.fields(findings)?;
    let model = fields
        .required("modelRef", findings)
        .and_then(|field| scope.resolve(&field, Kind::Model, findings));
    let others = fields.optional("fallbacks");
    let fallbacks = others.map(|field| read_fallbacks(&field, model.as_ref(), scope, findings));
    let params = fields
        .optional("params")
        .map(|field| read_params(&field, findings));
    fields.finish(findings);
    Some(ModelConfig {
        model: model?,
        fallbacks: fallbacks.unwrap_or_else(|| Some(Vec::new()))?,
        params: params.unwrap_or_else(|| Some(ModelParams::default()))?,
    })
}

/// Each model is asked once, and what they cost can be added up.
fn read_fallbacks(
    field: &Field<'_>,
    first: Option<&ResourceId>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<Vec<ResourceId>> {
    let mut models: Vec<ResourceId> = Vec::new();
    for item in field.list(findings)? {
        let Some((fields, reference)) = references::item(&item, findings) else {
            continue;
        };
        fields.finish(findings);
        let Some(model) = scope.resolve(&reference, Kind::Model, findings) else {
            continue;
        };
        if first == Some(&model) || models.contains(&model) {
            let message = format!("`{model}` is asked already before this point.");
            findings.add(
                reference
                    .invalid(message)
                    .suggest("remove it from `fallbacks`, or name another model"),
            );
            continue;
        }
        check_currency(&model, first, &reference, scope, findings);
        models.push(model);
    }
    Some(models)
}

fn check_currency(
    model: &ResourceId,
    first: Option<&ResourceId>,
    reference: &Field<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) {
    let currency = |id: &ResourceId| {
        Some(
            scope
                .decoded()
                .models
                .get(id)?
                .spec
                .pricing
                .as_ref()?
                .currency
                .as_str(),
        )
    };
    if let Some((own, other)) = currency(model)
        .zip(first.and_then(currency))
        .filter(|(own, other)| own != other)
    {
        let message = format!(
            "The prices of `{model}` are in {own}, but those of the first model are in {other}."
        );
        findings.add(
            reference
                .invalid(message)
                .suggest("state the `pricing` of all models of an agent in one currency"),
        );
    }
}

fn read_params(field: &Field<'_>, findings: &mut Findings) -> Option<ModelParams> {
    let mut fields = field.fields(findings)?;
    let temperature = fields.optional("temperature").map(|field| {
        field.number(
            "from 0 to 2",
            |value| (0.0..=2.0).contains(&value),
            findings,
        )
    });
    let max_tokens = fields
        .optional("maxTokens")
        .map(|field| field.whole_as(1, findings));
    let top_p = fields.optional("topP").map(|field| {
        field.number(
            "more than 0 and at most 1",
            |value| value > 0.0 && value <= 1.0,
            findings,
        )
    });
    let other = fields
        .rest()
        .map(|entry| (entry.key.clone(), entry.value.to_json()))
        .collect();
    Some(ModelParams {
        temperature: temperature.map_or(Some(None), |value| value.map(Some))?,
        max_tokens: max_tokens.map_or(Some(None), |value| value.map(Some))?,
        top_p: top_p.map_or(Some(None), |value| value.map(Some))?,
        other,
    })
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ModelConfig")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct ModelConfigShape {
    /// The Model to use.
    #[schemars(extend("x-goondan-names" = "Model"))]
    model_ref: RefShape,
    /// The Models to ask, in this order, where a model call has failed and was repeated as often as `maxRetries` says.
    #[schemars(extend("x-goondan-names" = "Model"))]
    fallbacks: Option<Vec<ItemShape>>,
    /// Sampling settings. What is absent is left to the provider. `reasoningEffort` may stand here, too; any other key is
    /// sent to the provider unchanged.
    params: Option<ParamsShape>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ModelParams")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct ParamsShape {
    /// The sampling temperature.
    #[schemars(range(min = 0, max = 2))]
    temperature: Option<f64>,
    /// How many tokens one answer may have.
    #[schemars(range(min = 1))]
    max_tokens: Option<u32>,
    /// The share of probability that nucleus sampling draws from.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    top_p: Option<f64>,
}
