package main

import (
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"github.com/orbweaver/orbweaver/internal/cli"
)

// CompletionCmd implements "completion".
type CompletionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Print the script of this shell: bash, zsh or fish."`
}

// Help explains where each script belongs.
func (CompletionCmd) Help() string {
	return `The script completes commands, flags, their values and files when you press Tab.
The Debian package installs it. Otherwise load it in each new shell:

  bash    echo 'source <(orbweaver completion bash)' >>~/.bashrc
  zsh     echo 'source <(orbweaver completion zsh)' >>~/.zshrc   (behind compinit)
  fish    orbweaver completion fish >~/.config/fish/completions/orbweaver.fish`
}

// Run prints the script.
func (c CompletionCmd) Run(out io.Writer) error {
	script, ok := cli.CompletionScript(c.Shell, "orbweaver")
	if !ok {
		return bad("no completion for the shell %q", c.Shell) // the parser refuses other shells
	}
	_, err := io.WriteString(cli.Exact(out), script)
	return err
}

// CompleteCmd implements "__complete", which the scripts of "completion" call.
type CompleteCmd struct {
	Words []string `arg:"" optional:"" help:"The words behind the program's name, up to the cursor."`
}

// Run prints the completions of the last word.
func (c CompleteCmd) Run(k *kong.Context, out io.Writer) error {
	_, err := fmt.Fprint(cli.Exact(out), cli.Complete(k.Model, c.Words))
	return err
}
