//! A chat, on a terminal of its own.

use crate::person::Person;
use crate::projects::scripted;

const SLOW: &str = "\
rules: [{when: {contains: slow}, reply: {text: late, delayMs: 600000}}]
default: {text: 'heard {{ input }}'}
";

#[test]
fn ctrl_c_cancels_the_turn_and_the_chat_goes_on() {
    let sandbox = scripted(SLOW);
    let mut person = Person::sit_down(&sandbox);
    person.read_until("a> ");
    person.write("slow\r");
    person.read_until("a is thinking");
    person.signal("INT");
    person.read_until("Cancelled.");
    person.read_until("a> ");
    person.write("hi\r");
    person.read_until("heard hi");
    person.read_until("a> ");
    person.write("/quit\r");
    assert_eq!(person.exit_code(), Some(0));
}

#[test]
fn a_signal_at_the_prompt_ends_the_chat() {
    let sandbox = scripted(SLOW);
    let mut person = Person::sit_down(&sandbox);
    person.read_until("a> ");
    person.signal("TERM");
    person.read_until("error[INTERRUPTED]");
    assert_eq!(person.exit_code(), Some(143));
}

#[test]
fn ctrl_c_twice_at_the_prompt_ends_the_chat() {
    let sandbox = scripted(SLOW);
    let mut person = Person::sit_down(&sandbox);
    person.read_until("a> ");
    person.write("\x03");
    person.read_until("Press Ctrl-C again to quit");
    person.read_until("a> ");
    person.write("\x03");
    person.read_until("error[INTERRUPTED]");
    assert_eq!(person.exit_code(), Some(130));
}
