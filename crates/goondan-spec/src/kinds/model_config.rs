//! `spec.modelConfig` of an Agent: its models and sampling settings.

use schemars::JsonSchema;

use super::DecodeScope;
use super::model_params::{self, ModelParams, ModelParamsShape};
use crate::ResourceId;
use crate::decode::FieldReader;
use crate::diagnostic_sink::DiagnosticSink;
use crate::meta::Kind;
use crate::references::{self, RefItemShape, RefShape};

pub(super) struct ModelConfig {
    pub(super) model: ResourceId,
    pub(super) fallbacks: Vec<ResourceId>,
    pub(super) params: ModelParams,
}

/// Reads the model of an Agent, its fallbacks and its parameters.
pub(super) fn read(
    field: &FieldReader<'_>,
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<ModelConfig> {
    let mut fields = field.fields(findings)?;
    let model = fields
        .required("modelRef", findings)
        .and_then(|field| scope.resolve(&field, Kind::Model, findings));
    let fallbacks_field = fields.optional("fallbacks");
    let fallbacks =
        fallbacks_field.map(|field| read_fallbacks(&field, model.as_ref(), scope, findings));
    let params = fields.read("params", findings, model_params::read);
    fields.finish(findings);
    Some(ModelConfig {
        model: model?,
        fallbacks: fallbacks.unwrap_or_else(|| Some(Vec::new()))?,
        params: params?.unwrap_or_default(),
    })
}

/// Reads the fallbacks. Each model may appear once. All prices must use one currency, so that costs
/// can be added up.
fn read_fallbacks(
    field: &FieldReader<'_>,
    first: Option<&ResourceId>,
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Vec<ResourceId>> {
    let mut models: Vec<ResourceId> = Vec::new();
    for item in field.list(findings)? {
        let Some((fields, reference)) = references::read_item(&item, findings) else {
            continue;
        };
        fields.finish(findings);
        let Some(model) = scope.resolve(&reference, Kind::Model, findings) else {
            continue;
        };
        if first == Some(&model) || models.contains(&model) {
            let message = format!("`{model}` is already in the list of models.");
            findings.add(
                reference
                    .invalid_value(message)
                    .suggest("remove it from `fallbacks`, or name another model"),
            );
            continue;
        }
        check_currency(&model, first, &reference, scope, findings);
        models.push(model);
    }
    Some(models)
}

/// Reports a model whose prices have another currency than those of the `first` model.
fn check_currency(
    model: &ResourceId,
    first: Option<&ResourceId>,
    reference: &FieldReader<'_>,
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) {
    let currency = |id: &ResourceId| {
        Some(
            scope
                .decoded_resources()
                .models
                .get(id)?
                .spec
                .pricing
                .as_ref()?
                .currency
                .as_str(),
        )
    };
    if let Some((currency_of_model, first_currency)) = currency(model)
        .zip(first.and_then(currency))
        .filter(|(currency_of_model, first_currency)| currency_of_model != first_currency)
    {
        let message = format!(
            "The prices of `{model}` are in {currency_of_model}, but the prices of the first \
            model are in {first_currency}."
        );
        findings.add(
            reference
                .invalid_value(message)
                .suggest("use one currency in the `pricing` of all models of an agent"),
        );
    }
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ModelConfig")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct ModelConfigShape {
    /// The Model to use.
    #[schemars(extend("x-goondan-names" = "Model"))]
    model_ref: RefShape,
    /// The Models to call, in this order, after a model call and its retries (`maxRetries`) have
    /// failed.
    #[schemars(extend("x-goondan-names" = "Model"))]
    fallbacks: Option<Vec<RefItemShape>>,
    /// Sampling settings. The provider decides what is absent. Other fields of its API go into
    /// `options.body` of the Model.
    params: Option<ModelParamsShape>,
}
