package cli

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// A Candidate is a word that can stand where the cursor is.
type Candidate struct {
	Word, Help string
}

// Completions are the words that can stand where the cursor is. The shell adds the files of Files.
type Completions struct {
	Words []Candidate
	Files Files
	// Kind is the placeholder of the value, such as HOST, if the command line does not say which values there are.
	// Typed is its beginning, and Prefix what stands before it in the same word. See Offer.
	Kind, Prefix, Typed string
}

// Offer adds values that begin with what is typed.
func (c *Completions) Offer(values ...string) {
	for _, v := range values {
		c.add(c.Prefix+v, "", c.Prefix+c.Typed)
	}
}

// Files says which files of the machine can stand where the cursor is.
type Files string

// The values of Files are words of the scripts that CompletionScript returns.
const (
	NoFiles     Files = "none"
	AllFiles    Files = "files"
	Directories Files = "dirs"
)

// Complete returns the completions of the last of words, which follow the program's name. The
// last word is empty if the cursor is behind a space.
//
// The values of a flag come from its enum. If it has none, its placeholder says whether it takes a FILE
// or a DIR. The argument COMMAND takes the names of commands.
func Complete(app *kong.Application, words []string) Completions {
	if len(words) == 0 {
		words = []string{""}
	}
	words = unsplit(words)
	last := words[len(words)-1]
	at, flags := app.Node, flagsOf(nil, app.Node)
	used := map[*kong.Flag]bool{}
	var awaits *kong.Flag // the flag whose value the next word is
	var args []string     // of the command at
	onlyArgs := false
	for _, w := range words[:len(words)-1] {
		switch {
		case awaits != nil:
			awaits = nil
		case w == "--" && !onlyArgs:
			onlyArgs = true
		case !onlyArgs && len(w) > 1 && w[0] == '-':
			name, _, given := strings.Cut(w, "=")
			if f := find(flags, name); f != nil {
				used[f] = true
				if !given && !f.IsBool() {
					awaits = f
				}
			}
		default:
			i := childOf(at, w)
			if i < 0 {
				args = append(args, w)
				continue
			}
			at, args = at.Children[i], nil
			flags = flagsOf(flags, at)
		}
	}
	name, value, given := strings.Cut(last, "=")
	switch {
	case awaits != nil:
		return values(awaits.Value, awaits.FormatPlaceHolder(), "", last)
	case !onlyArgs && strings.HasPrefix(last, "-") && given:
		if f := find(flags, name); f != nil && !f.IsBool() {
			return values(f.Value, f.FormatPlaceHolder(), name+"=", value)
		}
		return Completions{Files: NoFiles}
	case !onlyArgs && strings.HasPrefix(last, "-"):
		c := Completions{Files: NoFiles}
		for _, f := range flags {
			if !f.Hidden && (!used[f] || f.IsCumulative()) {
				c.add("--"+f.Name, HelpText(f.Value), last)
				if f.Tag.Negatable != "" {
					c.add("--no-"+f.Name, HelpText(f.Value), last)
				}
			}
		}
		return c
	case len(at.Children) > 0:
		return commandsOf(at, last)
	case len(at.Positional) == 0:
		return Completions{Files: NoFiles}
	}
	p := at.Positional[min(len(args), len(at.Positional)-1)]
	if len(args) >= len(at.Positional) && !p.IsCumulative() {
		return Completions{Files: NoFiles}
	}
	if p.Name == "command" {
		above := app.Node
		for _, a := range args {
			i := childOf(above, a)
			if i < 0 {
				return Completions{Files: NoFiles}
			}
			above = above.Children[i]
		}
		return commandsOf(above, last)
	}
	return values(p, strings.ToUpper(p.Name), "", last)
}

// childOf returns the index of the command with this name among the commands of n, or -1.
func childOf(n *kong.Node, name string) int {
	return slices.IndexFunc(n.Children, func(c *kong.Node) bool {
		return c.Name == name || slices.Contains(c.Aliases, name)
	})
}

// commandsOf returns the commands of n that begin with typed.
func commandsOf(n *kong.Node, typed string) Completions {
	c := Completions{Files: NoFiles}
	for _, child := range n.Children {
		if !child.Hidden {
			c.add(child.Name, child.Help, typed)
		}
	}
	return c
}

// unsplit joins what bash splits: --flag, = and value are three words to it.
func unsplit(words []string) (joined []string) {
	for i, w := range words {
		n := len(joined)
		switch {
		case w == "=" && n > 0 && strings.HasPrefix(joined[n-1], "--") && !strings.Contains(joined[n-1], "="):
			joined[n-1] += "="
		case i > 0 && words[i-1] == "=" && n > 0 && strings.HasSuffix(joined[n-1], "="):
			joined[n-1] += w
		default:
			joined = append(joined, w)
		}
	}
	return joined
}

// flagsOf returns the flags of a command behind those of the commands above it.
func flagsOf(above []*kong.Flag, n *kong.Node) []*kong.Flag {
	return slices.Concat(above, n.Flags)
}

// find returns the flag that is written as word, such as --dir or -h, or nil.
func find(flags []*kong.Flag, word string) *kong.Flag {
	for _, f := range flags {
		off := f.Tag.Negatable != "" && word == "--no-"+f.Name
		if word == "--"+f.Name || off || f.Short != 0 && word == "-"+string(f.Short) {
			return f
		}
	}
	return nil
}

// values returns the values of a flag or an argument that begin with typed. The words begin with
// prefix.
func values(v *kong.Value, kind, prefix, typed string) Completions {
	c := Completions{Files: NoFiles}
	switch {
	case v.Enum != "":
		for _, w := range v.EnumSlice() {
			if w != "" {
				c.add(prefix+w, "", prefix+typed)
			}
		}
	case strings.HasPrefix(kind, "FILE") || kind == "PAGE":
		c.Files = AllFiles
	case strings.HasPrefix(kind, "DIR"):
		c.Files = Directories
	default:
		c.Kind, c.Prefix, c.Typed = kind, prefix, typed
	}
	return c
}

// add adds a word if it begins with typed.
func (c *Completions) add(word, help, typed string) {
	if strings.HasPrefix(word, typed) {
		c.Words = append(c.Words, Candidate{word, help})
	}
}

// String returns the form that the scripts of the shells read: a line with Files, then a line for
// each word, with its help behind a tab.
func (c Completions) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, c.Files)
	for _, w := range c.Words {
		b.WriteString(w.Word)
		if w.Help != "" {
			b.WriteString("\t" + strings.Join(strings.Fields(w.Help), " "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Shells lists the shells that CompletionScript knows.
var Shells = []string{"bash", "zsh", "fish"}

var (
	//go:embed complete.bash
	bashScript string
	//go:embed complete.zsh
	zshScript string
	//go:embed complete.fish
	fishScript string
)

// CompletionScript returns the script that completes the command lines of a program in one of
// Shells. The script calls "PROGRAM __complete WORD...", which prints Completions.
func CompletionScript(shell, program string) (string, bool) {
	script, ok := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[shell]
	return strings.ReplaceAll(script, "PROGRAM", program), ok
}
