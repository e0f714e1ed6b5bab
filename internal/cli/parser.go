package cli

import (
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// Parser returns a parser of the command line of the program name into commands, with the
// options that all programs have, and the program's own. If the parser answers by itself, as
// for --help, it calls exit.
func Parser(
	name, description string, commands any, stdout, stderr *Output, exit func(code int), own ...kong.Option,
) (*kong.Kong, error) {
	options := []kong.Option{
		kong.Name(name),
		kong.Description(description),
		kong.UsageOnError(),
		kong.Writers(stdout.Raw, stderr), // kong fits the help to the width of the raw terminal
		kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.BindTo(stdout, (*io.Writer)(nil)),
		kong.Bind(ErrorOutput{Writer: stderr}),
		kong.ValueFormatter(HelpText),
		kong.WithBeforeResolve(refuseMisused),
	}
	return kong.New(commands, append(append(options, Values()...), own...)...)
}

// Texts is a kong.Option with help texts by name. A command, a flag or an argument whose help is ${NAME}
// gets the text of that name, and a flag without help the text of its own name, with underscores. The variables
// of kong do this, too, but kong expands all of them again for each flag, which takes longer than all else that a
// program does at its start.
type Texts map[string]string

func (t Texts) Apply(k *kong.Kong) error {
	replace := func(help *string) {
		if name, ok := strings.CutPrefix(*help, "${"); ok {
			if text, ok := t[strings.TrimSuffix(name, "}")]; ok {
				*help = text
			}
		}
	}
	return kong.PostBuild(func(k *kong.Kong) error {
		return kong.Visit(k.Model.Node, func(n kong.Visitable, next kong.Next) error {
			switch n := n.(type) {
			case *kong.Node:
				replace(&n.Help)
			case *kong.Value:
				if n.Help == "" {
					n.Help = t[strings.ReplaceAll(n.Name, "-", "_")]
				}
				replace(&n.Help)
			}
			return next(nil)
		})
	}).Apply(k)
}

// Parse parses args, or --help if there are none, with the parser that newParser returns. If
// the parser has answered by itself, ctx and err are nil, and code is the exit code. The error is
// a *Mistake. hints has advice for flags that do not exist, by name with their dashes. "-H NAME:" is
// the advice for -H if its value looks like a header.
func Parse(
	args []string, hints map[string]string, newParser func(exit func(code int)) (*kong.Kong, error),
) (ctx *kong.Context, code int, err error) {
	if len(args) == 0 {
		args = []string{"--help"}
	}
	exited := false
	parser, err := newParser(func(n int) { code, exited = n, true })
	if err != nil {
		panic(err) // the commands are declared wrongly
	}
	if ctx, err = parser.Parse(args); exited {
		return nil, code, nil
	}
	if err != nil {
		return nil, 0, explain(err, args, hints)
	}
	return ctx, 0, nil
}
