package cli

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// A Mistake is a wrong command line. Its text names what is wrong and says what would be right.
type Mistake struct {
	text string
	// Help is the command that explains the flags and arguments, such as "orbweaver crawl --help".
	Help string
	err  error
}

func (m *Mistake) Error() string { return m.text }
func (m *Mistake) Unwrap() error { return m.err }

// Errors of kong that are put into other words.
var (
	unknownFlag     = regexp.MustCompile(`^unknown flag (\S+?)(, did you mean .*)?$`)
	unknownArgument = regexp.MustCompile(`(?s)^unexpected argument (.*?)(, did you mean .*)?$`)
	missingCommand  = regexp.MustCompile(`^expected (one of )?"[a-z]`)
	missingArgument = regexp.MustCompile(`^expected "(<.*)"$`)
	missingFlags    = regexp.MustCompile(`^missing flags: `)
	missingValue    = regexp.MustCompile(`^--([a-z-]+): expected .* value but got "(.*?)" \((.*?)\)`)
	notOneOf        = regexp.MustCompile(`(?s)^--([a-z-]+)(?:=\S+)? must be one of .* but got "(.*)"$`)
	wrongArgument   = regexp.MustCompile(`(?s)^<([a-z-]+)>(?: \.\.\.)? must be one of "(.*)" but got "(.*)"$`)
	notBoolean      = regexp.MustCompile(`(?s)^--([a-z-]+): bool value must be .* but got (".*")$`)
	needlessValue   = regexp.MustCompile(`(?s)^unexpected flag argument (".*")$`)
	notTime         = regexp.MustCompile(`(?s)^--([a-z-]+): parsing time (".*?") as `)
	together        = regexp.MustCompile(`^--([a-z-]+) and --([a-z-]+) can't be used together$`)
)

// explain puts an error of the parser into our words. hints has advice for flags that do not
// exist, by name with their dashes.
func explain(err error, args []string, hints map[string]string) error {
	parse, ok := errors.AsType[*kong.ParseError](err)
	if !ok {
		return err
	}
	node := cmp.Or(parse.Context.Selected(), parse.Context.Model.Node)
	command := node.Path() // empty for the program itself
	m := &Mistake{text: err.Error(), Help: node.FullPath() + " --help", err: err}
	text := m.text
	if bad := equalsSign(args, node); bad != nil {
		m.text = bad.Error()
	} else if f := unknownFlag.FindStringSubmatch(text); f != nil {
		m.text = noFlag(f[1], node, args, hints)
	} else if f := unknownArgument.FindStringSubmatch(text); f != nil {
		m.text = noArgument(f[1], node)
	} else if f := missingArgument.FindStringSubmatch(text); f != nil {
		m.text = fmt.Sprintf("%s needs %s", command, arguments(node, true))
	} else if missingCommand.MatchString(text) {
		names := commandNames(node)
		list := enumerate(names, "or")
		if len(list) > 80 {
			list = enumerate(append(names[:5:5], "another"), "or")
		}
		m.text = strings.TrimSpace(fmt.Sprintf("%s needs a command: %s", command, list))
	} else if missingFlags.MatchString(text) {
		m.text = fmt.Sprintf("%s needs %s", command, enumerate(required(node), "and"))
	} else if f := missingValue.FindStringSubmatch(text); f != nil {
		m.text = noValue(f[1], f[2], f[3], node)
	} else if f := notOneOf.FindStringSubmatch(text); f != nil {
		m.text = fmt.Sprintf("--%s %q: give %s", f[1], f[2], Choices(flagOf(f[1], node)))
	} else if f := wrongArgument.FindStringSubmatch(text); f != nil {
		m.text = fmt.Sprintf("%s %q: give %s", strings.ToUpper(f[1]), f[3], enumerate(strings.Split(f[2], `","`), "or"))
	} else if f := notBoolean.FindStringSubmatch(text); f != nil {
		m.text = fmt.Sprintf("--%s: %s is neither true nor false; give --%[1]s, or --%[1]s=false", f[1], f[2])
	} else if f := needlessValue.FindStringSubmatch(text); f != nil {
		m.text = fmt.Sprintf("%s after = belongs to a flag that takes no value; leave it out", f[1])
	} else if f := notTime.FindStringSubmatch(text); f != nil {
		m.text = fmt.Sprintf("--%s: %s is not a time; write 2026-01-31T12:00:00Z", f[1], f[2])
	} else if f := together.FindStringSubmatch(text); f != nil {
		m.text = fmt.Sprintf("--%s and --%s cannot be combined; give one of them", f[1], f[2])
	}
	return m
}

// header matches an argument that looks like a header, alone or with -H before it.
var header = regexp.MustCompile(`^(-H=?)?[A-Za-z][A-Za-z0-9-]*:($|[^/0-9])`)

// refuseMisused returns an error if a flag with one value is given twice, because only the last would count, or if a
// short flag has an equals sign, which would be part of its value. A bool may be repeated: it says the same.
func refuseMisused(ctx *kong.Context) error {
	seen := map[*kong.Flag]bool{}
	for _, p := range ctx.Path {
		if f := p.Flag; f == nil || p.Resolved || f.IsCumulative() || f.IsBool() {
			continue
		} else if seen[f] {
			return fmt.Errorf("--%s is given twice, and takes one value; leave one of them out", f.Name)
		}
		seen[p.Flag] = true
	}
	if node := ctx.Selected(); node != nil && !node.Passthrough {
		return equalsSign(ctx.Args, node)
	}
	return nil
}

// equalsSign returns an error if args have a short flag of a command with an equals sign behind it.
func equalsSign(args []string, node *kong.Node) error {
	for _, arg := range args {
		if arg == "--" {
			return nil
		}
		if len(arg) < 3 || arg[0] != '-' || arg[2] != '=' {
			continue
		}
		for _, f := range knownFlags(node) {
			switch {
			case f.Short != rune(arg[1]):
			case f.IsBool():
				return fmt.Errorf("%s takes no value; leave %q out", arg[:2], arg[2:])
			default:
				return fmt.Errorf("%s takes its value without =; write %[1]s %s, or --%s=%[2]s", arg[:2],
					strings.TrimSuffix(f.FormatPlaceHolder(), ",..."), f.Name)
			}
		}
	}
	return nil
}

// knownFlags returns the flags that a command accepts.
func knownFlags(node *kong.Node) (flags []*kong.Flag) {
	for _, group := range node.AllFlags(true) {
		flags = append(flags, group...)
	}
	return flags
}

// flagOf returns the flag of a command with this name, or nil.
func flagOf(name string, node *kong.Node) *kong.Flag {
	flags := knownFlags(node)
	i := slices.IndexFunc(flags, func(f *kong.Flag) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return flags[i]
}

// commandNames returns the names of a command's commands.
func commandNames(node *kong.Node) (names []string) {
	for _, child := range node.Children {
		if child.Type == kong.CommandNode && !child.Hidden {
			names = append(names, child.Name)
		}
	}
	return names
}

// withValue returns a flag with the placeholder of its value, as people type it.
func withValue(f *kong.Flag) string {
	if f.IsBool() {
		return "--" + f.Name
	}
	return "--" + f.Name + " " + strings.TrimSuffix(f.FormatPlaceHolder(), ",...")
}

// required returns the flags that a command needs and does not have. It needs one of those that exclude each other.
func required(node *kong.Node) (missing []string) {
	groups := map[string]int{} // places in missing
	for _, f := range knownFlags(node) {
		if !f.Required || f.Set {
			continue
		}
		if len(f.Xor) > 0 {
			if at, known := groups[f.Xor[0]]; known {
				missing[at] += " or " + withValue(f)
				continue
			}
			groups[f.Xor[0]] = len(missing)
		}
		missing = append(missing, withValue(f))
	}
	return missing
}

// Choices returns the values that a flag with an enum accepts, as people write them: a, b or c.
func Choices(f *kong.Flag) string {
	words := slices.DeleteFunc(f.EnumSlice(), func(w string) bool { return w == "" })
	return enumerate(words, "or")
}

// noFlag returns the message for a flag that the command does not have.
func noFlag(flag string, node *kong.Node, args []string, hints map[string]string) string {
	text := fmt.Sprintf("unknown flag %s", flag)
	if node.Parent != nil {
		text = fmt.Sprintf("%s has no flag %s", node.Path(), flag)
	}
	hint := hints[flag]
	for _, a := range args { // such as -np, of which the parser names one letter
		if !strings.HasPrefix(a, "--") && len(flag) == 2 && strings.Contains(a, flag[1:]) && hints[a] != "" {
			text, hint = strings.TrimSuffix(text, flag)+a, hints[a]
		}
	}
	if of := hints[flag+" NAME:"]; of != "" && slices.ContainsFunc(args, header.MatchString) {
		hint = of
	}
	if hint != "" && node.Name == "crawl" {
		return text + "; " + hint
	}
	name, long := strings.CutPrefix(flag, "--")
	if !long {
		// A single dash before a whole word is a long flag with one dash too few.
		for _, a := range args {
			word, _, _ := strings.Cut(strings.TrimPrefix(a, "-"), "=")
			if strings.HasPrefix(a, flag) && !strings.HasPrefix(a, "--") && len(word) > 2 && flagOf(word, node) != nil {
				return fmt.Sprintf("%s; did you mean --%s, with two dashes?", text, word)
			}
		}
		return text
	}
	var known []string
	for _, f := range knownFlags(node) {
		known = append(known, f.Name)
	}
	if near := Nearest(name, known); near != "" {
		text += "; did you mean --" + near + "?"
	}
	return text
}

// noArgument returns the message for an argument that the command does not take.
func noArgument(arg string, node *kong.Node) string {
	names := commandNames(node)
	if len(names) == 0 {
		if len(node.Positional) == 0 {
			text := fmt.Sprintf("%s takes no argument %q; ", node.Path(), arg)
			for _, name := range []string{"host", "agent"} {
				if flagOf(name, node) != nil && (name != "host" || strings.Contains(arg, ".")) {
					return text + fmt.Sprintf("did you mean --%s %s?", name, arg)
				}
			}
			return text + "leave it out"
		}
		return fmt.Sprintf("%s takes only %s; leave %q out", node.Path(), arguments(node, false), arg)
	}
	text := fmt.Sprintf("unknown command %q", strings.TrimSpace(node.Path()+" "+arg))
	if near := Nearest(arg, names); near != "" {
		return fmt.Sprintf("%s; did you mean %s?", text, strings.TrimSpace(node.Path()+" "+near))
	}
	if node.Parent == nil && strings.ContainsAny(arg, ".:/") && slices.Contains(names, "crawl") {
		return fmt.Sprintf("%s; to crawl a URL, write %s crawl URL", text, node.Name)
	}
	return fmt.Sprintf("%s\nCommands: %s", text, strings.Join(names, ", "))
}

// arguments returns the placeholders of a command's arguments; with needed, of those that it needs.
func arguments(node *kong.Node, needed bool) string {
	var all []string
	for _, p := range node.Positional {
		if needed && !p.Required {
			continue
		}
		all = append(all, strings.ToUpper(p.Name))
	}
	if len(all) == 1 {
		return "the argument " + all[0]
	}
	return "the arguments " + enumerate(all, "and")
}

// noValue returns the message for a flag whose value is missing: got follows it, a token of this kind.
func noValue(name, got, kind string, node *kong.Node) string {
	want := "--" + name
	if f := flagOf(name, node); f != nil {
		want = withValue(f)
	}
	if strings.HasSuffix(kind, "flag") {
		return fmt.Sprintf("--%s needs a value: %s; %s is a flag (a value that begins with a dash follows =)",
			name, want, got)
	}
	return fmt.Sprintf("--%s needs a value: %s", name, want)
}

// enumerate joins words with commas, and with conjunction before the last one.
func enumerate(words []string, conjunction string) string {
	n := len(words)
	if n < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n-1], ", ") + " " + conjunction + " " + words[n-1]
}
