package main

import (
	"context"
	"strings"

	"github.com/urfave/cli/v2"
)

func completionCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a script that completes tarn's commands and options",
		ArgsUsage: "bash|zsh|fish",
		Category:  catTool,
		Description: manual("To use it in one shell: source <(tarn completion bash). Commands, options, branches and tags are completed.",
			"tarn completion bash > /etc/bash_completion.d/tarn"),
		Action: action(h, 1, 1, func(c *cli.Context, k *call) error {
			return runCompletion(c.Context, k, c.Args().First())
		}),
	}
}

func runCompletion(_ context.Context, k *call, shell string) error {
	script, ok := completionScripts[shell]
	if !ok {
		return usageError("completion is for bash, zsh or fish, not %q", shell)
	}
	return writeText(k.Stdout, strings.TrimSpace(script))
}

// completionScripts ask the program itself, by the hidden flag of urfave/cli,
// what may follow the words typed so far; where an option is being typed, the
// word --options stands for it. Where tarn knows nothing, files are completed.
var completionScripts = map[string]string{
	"bash": `
_tarn_complete() {
    local cur="${COMP_WORDS[COMP_CWORD]}" out
    local -a words=("${COMP_WORDS[@]:0:COMP_CWORD}")
    [[ "$cur" == -* ]] && words+=(--options)
    out=$("${words[@]}" --generate-bash-completion 2>/dev/null)
    COMPREPLY=($(compgen -W "$out" -- "$cur"))
}
complete -o bashdefault -o default -F _tarn_complete tarn
`,
	"zsh": `
#compdef tarn
_tarn() {
    local -a typed found
    typed=("${(@)words[1,CURRENT-1]}")
    [[ "${words[CURRENT]}" == -* ]] && typed+=(--options)
    found=("${(@f)$("${typed[@]}" --generate-bash-completion 2>/dev/null)}")
    [[ -n "${found[1]}" ]] && compadd -- "${found[@]}"
    _files
}
compdef _tarn tarn
`,
	"fish": `
function __tarn_complete
    set -l words (commandline -opc)
    string match -q -- '-*' (commandline -ct); and set -a words --options
    $words --generate-bash-completion 2>/dev/null
end
complete -c tarn -a '(__tarn_complete)'
`,
}
