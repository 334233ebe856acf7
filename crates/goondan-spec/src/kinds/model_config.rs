//! `spec.modelConfig` of an Agent: which models it uses, and how.

use schemars::JsonSchema;

use super::Scope;
use super::model_params::{self, ModelParams, ParamsShape};
use crate::ResourceId;
use crate::decode::Field;
use crate::findings::Findings;
use crate::meta::Kind;
use crate::references::{self, ItemShape, RefShape};

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
    let params = fields.read("params", findings, model_params::read);
    fields.finish(findings);
    Some(ModelConfig {
        model: model?,
        fallbacks: fallbacks.unwrap_or_else(|| Some(Vec::new()))?,
        params: params?.unwrap_or_default(),
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
    /// Sampling settings. The provider decides what is absent. Other fields of its API go into `options.body` of the Model.
    params: Option<ParamsShape>,
}
