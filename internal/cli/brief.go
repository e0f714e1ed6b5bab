package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// HelpAll is the flag --help-all of a command whose help is brief (see Brief).
type HelpAll bool

// IgnoreDefault is for kong: the flag has an effect only if it is given.
func (HelpAll) IgnoreDefault() {}

// BeforeReset prints the help and exits, before kong looks for mistakes.
func (HelpAll) BeforeReset(ctx *kong.Context) error {
	if err := ctx.PrintUsage(false); err != nil {
		return err
	}
	ctx.Exit(0)
	return nil
}

// Brief is a kong.Option that shortens the help of commands. It maps the name of a command to the flags that its help
// shows. With --help-all the help shows all flags, and with the first word of a group's name, as in
// "--help politeness", those of the group. A single word that names no group, and looks like no URL, is a mistake.
type Brief map[string][]string

// Apply implements kong.Option.
func (b Brief) Apply(k *kong.Kong) error { return kong.Help(b.print).Apply(k) }

func (b Brief) print(options kong.HelpOptions, ctx *kong.Context) error {
	command, given := ctx.Selected(), argumentsOf(ctx)
	if command == nil || b[command.Name] == nil || slices.Contains(ctx.Args, "--help-all") ||
		slices.Contains(given, "all") {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	words := wordsOf(command)
	i := slices.IndexFunc(given, func(arg string) bool { return slices.Contains(words, arg) })
	if i < 0 && len(given) == 1 && !strings.ContainsAny(given[0], "./:") && given[0] != "localhost" {
		return fmt.Errorf("no group %s; groups: %s", given[0], strings.Join(words, ", "))
	} else if i < 0 {
		for _, f := range command.Flags {
			f.Hidden = !slices.Contains(b[command.Name], f.Name)
		}
	} else {
		command.Detail, command.Positional = "", nil
		for _, f := range slices.Concat(command.AllFlags(false)...) {
			f.Hidden = groupWord(f) != given[i]
		}
	}
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintf(ctx.Stdout, "\nAll flags:           %s --help-all\nThose of one group:  %[1]s --help GROUP\n"+
		"GROUP: %s\n", command.FullPath(), strings.Join(words, ", "))
	return err
}

// argumentsOf returns what the command line has beside the command, the flags and their values.
func argumentsOf(ctx *kong.Context) (given []string) {
	for _, p := range ctx.Path {
		if p.Positional == nil {
			continue
		}
		if list, ok := ctx.Value(p).Interface().([]string); ok {
			given = append(given, list...)
		}
	}
	return given
}

// wordsOf returns the first words of the names of a command's groups of flags, in lower case.
func wordsOf(command *kong.Node) (words []string) {
	for _, f := range command.Flags {
		if w := groupWord(f); w != "" && !slices.Contains(words, w) {
			words = append(words, w)
		}
	}
	return words
}

// groupWord returns the first word of the name of a flag's group, in lower case, or "".
func groupWord(f *kong.Flag) string {
	if f.Group == nil {
		return ""
	}
	word, _, _ := strings.Cut(strings.ToLower(f.Group.Key), " ")
	return word
}
