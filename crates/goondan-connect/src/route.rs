//! Routing of events to agents and conversations.

use goondan::spec::kinds::{IngressRule, InstanceKeyRoute};

use crate::event::PlatformEvent;

/// Target of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRoute {
    /// Agent; `None` for the swarm's entry agent.
    pub agent: Option<String>,
    /// Conversation key.
    pub instance_key: String,
    /// Index of the matching rule, from 0; `None` if no rule matches.
    pub rule: Option<usize>,
}

/// Routes an event by the first matching rule. Without a match, the entry agent gets it under the
/// event's own key.
pub fn route(rules: &[IngressRule], event: &PlatformEvent) -> EventRoute {
    let Some((number, rule)) = rules
        .iter()
        .enumerate()
        .find(|(_, rule)| matches(rule, event))
    else {
        return EventRoute {
            agent: None,
            instance_key: event.key.clone(),
            rule: None,
        };
    };
    let instance_key = match &rule.instance_key {
        InstanceKeyRoute::FromEvent => None,
        InstanceKeyRoute::Fixed(key) => Some(key.trim().to_owned()),
        InstanceKeyRoute::Property { name, prefix } => {
            let value = event
                .property(name)
                .map(|value| value.trim())
                .filter(|value| !value.is_empty());
            value.map(|value| format!("{prefix}{value}"))
        }
    };
    EventRoute {
        agent: rule.agent.as_ref().map(|agent| agent.name.clone()),
        instance_key: instance_key.unwrap_or_else(|| event.key.clone()),
        rule: Some(number),
    }
}

/// Returns true if the event fulfills all conditions of the rule.
fn matches(rule: &IngressRule, event: &PlatformEvent) -> bool {
    rule.event.as_ref().is_none_or(|name| *name == event.name)
        && rule
            .properties
            .iter()
            .all(|(name, wanted)| event.property(name) == Some(wanted))
}

#[cfg(test)]
mod tests {
    use goondan::spec::{Kind, ResourceId};

    use super::*;

    fn rule(
        event: Option<&str>,
        properties: &[(&str, &str)],
        instance_key: InstanceKeyRoute,
    ) -> IngressRule {
        IngressRule {
            event: event.map(str::to_owned),
            properties: properties
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            agent: Some(ResourceId {
                package: None,
                kind: Kind::Agent,
                name: "b".to_owned(),
            }),
            instance_key,
        }
    }

    fn event(properties: &[(&str, &str)]) -> PlatformEvent {
        let properties = properties
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        PlatformEvent {
            name: "e".to_owned(),
            key: "own".to_owned(),
            properties,
            ..PlatformEvent::default()
        }
    }

    fn key(rules: &[IngressRule], properties: &[(&str, &str)]) -> (Option<usize>, String) {
        let route = route(rules, &event(properties));
        (route.rule, route.instance_key)
    }

    #[test]
    fn the_first_matching_rule_applies() {
        let by_team = InstanceKeyRoute::Property {
            name: "team".to_owned(),
            prefix: "t:".to_owned(),
        };
        let rules = [
            rule(Some("other"), &[], InstanceKeyRoute::Fixed("no".to_owned())),
            rule(
                Some("e"),
                &[("urgent", "true")],
                InstanceKeyRoute::Fixed(" urgent ".to_owned()),
            ),
            rule(None, &[], by_team),
        ];
        assert_eq!(
            key(&rules, &[("urgent", "true"), ("team", "x")]),
            (Some(1), "urgent".to_owned())
        );
        assert_eq!(
            key(&rules, &[("urgent", "false"), ("team", " x ")]),
            (Some(2), "t:x".to_owned())
        );
        assert_eq!(key(&rules, &[("team", " ")]), (Some(2), "own".to_owned()));
        assert_eq!(key(&rules[..1], &[]), (None, "own".to_owned()));
        assert_eq!(route(&rules[..1], &event(&[])).agent, None);
        let elsewhere = InstanceKeyRoute::Property {
            name: "chat_id".to_owned(),
            prefix: String::new(),
        };
        assert_eq!(
            key(&[rule(None, &[], elsewhere)], &[("chatId", "7")]),
            (Some(0), "7".to_owned())
        );
    }
}
