"""Gives skills to two checkers, and compares what they say: `skills.py GDN AGENTSKILLS`."""

import pathlib
import subprocess
import sys
import tempfile

GOOD = {
    'plain': "---\nname: plain\ndescription: Does a plain thing.\n---\n\n# Plain\n",
    'everything': "---\nname: everything\ndescription: Uses every field there is.\nlicense: Apache-2.0\ncompatibility: Needs git and a network.\nallowed-tools: Bash(git:*) Read\nmetadata:\n  author: somebody\n  version: \"1.0\"\n---\nText.\n",
    'folded-text': "---\nname: folded-text\ndescription: >\n  Goes over\n  two lines.\n---\nText.\n",
    'quoted': "---\nname: \"quoted\"\ndescription: 'With a colon: and quotes.'\n---\n",
    'v2-1-0': "---\nname: v2-1-0\ndescription: Has digits in its name.\n---\n",
    '2024': "---\nname: 2024\ndescription: 2024\n---\nA name and a description that look like numbers.\n",
    'longest-name-'+'a'*51: "---\nname: longest-name-"+'a'*51+"\ndescription: Has a name of 64 characters.\n---\n",
    'longest-description': "---\nname: longest-description\ndescription: "+'d'*1024+"\n---\n",
    'café': "---\nname: café\ndescription: Small letters of any script.\n---\n",
    'no-body': "---\nname: no-body\ndescription: Has front matter alone.\n---\n",
}

# `None` is a directory without a file.
BAD = {
    'no-front-matter': "# Just text\n",
    'not-closed': "---\nname: not-closed\ndescription: Has no end.\n",
    'no-name': "---\ndescription: Has no name.\n---\n",
    'no-description': "---\nname: no-description\n---\n",
    'blank-description': "---\nname: blank-description\ndescription: \"  \"\n---\n",
    'Upper': "---\nname: Upper\ndescription: Has a large letter.\n---\n",
    'under_score': "---\nname: under_score\ndescription: Has an underscore.\n---\n",
    'two--hyphens': "---\nname: two--hyphens\ndescription: Has two hyphens in a row.\n---\n",
    'hyphen-': "---\nname: hyphen-\ndescription: Ends with a hyphen.\n---\n",
    'other-folder': "---\nname: another-name\ndescription: Is called differently from its folder.\n---\n",
    'a'*65: "---\nname: "+'a'*65+"\ndescription: Has a name of 65 characters.\n---\n",
    'long-description': "---\nname: long-description\ndescription: "+'d'*1025+"\n---\n",
    'long-compatibility': "---\nname: long-compatibility\ndescription: Says too much.\ncompatibility: "+'c'*501+"\n---\n",
    'unknown-field': "---\nname: unknown-field\ndescription: Has a field that nobody knows.\nversion: 1.0.0\n---\n",
    'twice': "---\nname: twice\nname: twice\ndescription: Has a key twice.\n---\n",
    'not-yaml': "---\nname: not-yaml\ndescription: [broken\n---\n",
    'a-list': "---\n- name\n- description\n---\n",
    'no-file': None,
}

PROJECT = """
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec: {modelConfig: {modelRef: Model/m}, skills: ["./skills/NAME"]}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: s}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
"""


def says_yes(command):
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


def main():
    gdn, reference = sys.argv[1:]
    different = 0
    with tempfile.TemporaryDirectory() as place:
        for is_good, skills in ((True, GOOD), (False, BAD)):
            for name, text in skills.items():
                project = pathlib.Path(place, f"{is_good}-{name}")
                folder = project / "skills" / name
                folder.mkdir(parents=True)
                (project / "goondan.yaml").write_text(PROJECT.replace("NAME", name), encoding="utf-8")
                if text is not None:
                    (folder / "SKILL.md").write_text(text, encoding="utf-8")
                ours = says_yes([gdn, "validate", str(project)])
                theirs = says_yes([reference, "validate", str(folder)])
                if not ours == theirs == is_good:
                    different += 1
                    print(f"{name}: gdn says {ours}, skills-ref says {theirs}, expected {is_good}", file=sys.stderr)
    count = len(GOOD) + len(BAD)
    print(f"{count - different} of {count} folders: the same verdict")
    return 1 if different else 0


sys.exit(main())
