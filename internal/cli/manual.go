package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// A Manual writes manual pages from the declarations of the commands, in the macros of man(7).
type Manual struct {
	App     *kong.Application
	Version string // of the program
	Date    string // of the program, such as 2026-11-23
	// Sections are the sections behind the flags, by the name of the page. A command below has those of its page.
	Sections map[string][]Section
}

// A Section is a part of a manual page. Its text has the form of a command's Help: paragraphs, and
// indented lines that stay as they are.
type Section struct {
	Title, Text string
	// Entries are terms with their meanings, below the text.
	Entries [][2]string
}

// Pages returns the names of all pages, such as orbweaver-crawl: the program's, and one for each of
// its commands.
func (m Manual) Pages() []string {
	names := []string{m.App.Name}
	for _, n := range m.App.Children {
		if !n.Hidden {
			names = append(names, m.App.Name+"-"+n.Name)
		}
	}
	return names
}

// Page returns a page in troff's language: one of Pages, or the page of a command below these, such as
// orbweaver-check-robots. ok is false if there is no such page.
func (m Manual) Page(name string) (text string, ok bool) {
	n := named(m.App.Node, m.App.Name, name)
	if n == nil {
		return "", false
	}
	w := &roff{}
	w.line(".TH", strings.ToUpper(name), "1", m.Date, m.App.Name+" "+m.Version, "User Commands")
	w.line(".SH", "NAME")
	brief := n.Help
	if n == m.App.Node {
		brief, _, _ = strings.Cut(strings.TrimSpace(n.Help), "\n")
	}
	brief, _, _ = strings.Cut(brief, ". ")
	w.text(name + " - " + strings.TrimSuffix(lowerFirst(brief), "."))
	w.line(".SH", "SYNOPSIS")
	leaves := leavesOf(n)
	for i, leaf := range leaves {
		if i > 0 {
			w.line(".br")
		}
		w.synopsis(leaf)
	}
	w.line(".SH", "DESCRIPTION")
	if n == m.App.Node {
		w.prose(n.Help)
	} else {
		w.text(n.Help)
		if n.Detail != "" {
			w.line(".PP")
			w.prose(n.Detail)
		}
	}
	if n == m.App.Node {
		w.line(".SH", "COMMANDS")
		for _, c := range n.Children {
			if !c.Hidden {
				w.term(func() { w.text(bold(m.App.Name+"-"+c.Name) + "(1)") }, c.Help)
			}
		}
	}
	w.flags("OPTIONS", n)
	if n != m.App.Node && len(n.Children) > 0 {
		w.line(".SH", "COMMANDS")
		for _, leaf := range leaves {
			w.line(".SS", strings.TrimPrefix(leaf.FullPath(), m.App.Name+" "))
			w.text(leaf.Help)
			if leaf.Detail != "" {
				w.line(".PP")
				w.prose(leaf.Detail)
			}
			w.flags("", leaf)
		}
	}
	page := name
	for _, p := range m.Pages()[1:] {
		if strings.HasPrefix(name, p+"-") {
			page = p
		}
	}
	for _, s := range m.Sections[page] {
		w.line(".SH", s.Title)
		w.prose(s.Text)
		for _, e := range s.Entries {
			w.term(func() { w.text(bold(e[0])) }, e[1])
		}
	}
	w.line(".SH", "SEE ALSO")
	var others []string
	for _, p := range m.Pages() {
		if p != name {
			others = append(others, bold(p)+"(1)")
		}
	}
	w.text(strings.Join(others, ",\n"))
	return w.String(), true
}

// named returns the command with the page name at or below n, whose page has the name own; nil if there is none.
func named(n *kong.Node, own, name string) *kong.Node {
	if own == name {
		return n
	}
	for _, c := range n.Children {
		if !c.Hidden {
			if found := named(c, own+"-"+c.Name, name); found != nil {
				return found
			}
		}
	}
	return nil
}

// leavesOf returns the commands at or below n that can be run.
func leavesOf(n *kong.Node) []*kong.Node {
	if len(n.Children) == 0 {
		return []*kong.Node{n}
	}
	return n.Leaves(true)
}

func lowerFirst(s string) string {
	word, _, _ := strings.Cut(s, " ")
	if len(word) < 2 || word[1:] != strings.ToLower(word[1:]) || strings.HasPrefix(s, "Orbweaver") {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// The marks of fonts in text, which Go's strings cannot hold otherwise.
const boldMark, italicMark, plainMark = "\x01", "\x02", "\x03"

func bold(s string) string   { return boldMark + s + plainMark }
func italic(s string) string { return italicMark + s + plainMark }

// roff builds a document in troff's language.
type roff struct{ strings.Builder }

var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`,
	boldMark, `\fB`, italicMark, `\fI`, plainMark, `\fR`)

// escape returns text in which nothing has a meaning to troff.
func escape(s string) string {
	var b strings.Builder
	for _, r := range escapes.Replace(s) {
		if r < 0x80 {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		}
	}
	return b.String()
}

// line writes a request with its arguments.
func (w *roff) line(request string, args ...string) {
	w.WriteString(request)
	for _, a := range args {
		w.WriteString(` "` + strings.ReplaceAll(escape(a), `"`, `\(dq`) + `"`)
	}
	w.WriteByte('\n')
}

// text writes lines that troff may fill.
func (w *roff) text(s string) {
	for l := range strings.SplitSeq(strings.TrimSpace(s), "\n") {
		if l = escape(strings.TrimSpace(l)); strings.HasPrefix(l, ".") {
			l = `\&` + l
		}
		w.WriteString(l + "\n")
	}
}

// prose writes paragraphs. Lines that are indented by two columns stay as they are.
func (w *roff) prose(s string) {
	fixed, first := false, true
	for para := range strings.SplitSeq(strings.Trim(s, "\n"), "\n\n") {
		if !first {
			w.line(".PP")
		}
		first = false
		for l := range strings.SplitSeq(para, "\n") {
			if indented := strings.HasPrefix(l, "  "); indented != fixed {
				if fixed = indented; fixed {
					w.WriteString(".RS 4\n.EX\n")
				} else {
					w.WriteString(".EE\n.RE\n")
				}
			}
			if fixed {
				l = strings.TrimPrefix(l, "  ")
			}
			if l = escape(strings.TrimRight(l, " ")); strings.HasPrefix(l, ".") {
				l = `\&` + l
			}
			w.WriteString(l + "\n")
		}
		if fixed {
			w.WriteString(".EE\n.RE\n")
			fixed = false
		}
	}
}

// term writes an entry of a list.
func (w *roff) term(name func(), meaning string) {
	w.line(".TP")
	name()
	w.text(meaning)
}

// synopsis writes how a command is called.
func (w *roff) synopsis(n *kong.Node) {
	words := []string{bold(n.FullPath())}
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			if f.Required {
				words = append(words, bold("--"+f.Name)+" "+italic(f.FormatPlaceHolder()))
			}
		}
	}
	words = append(words, "["+italic("flags")+"]")
	for _, p := range n.Positional {
		word := italic(strings.ToUpper(p.Name))
		if p.IsCumulative() {
			word += " ..."
		}
		if !p.Required {
			word = "[" + word + "]"
		}
		words = append(words, word)
	}
	w.text(strings.Join(words, " "))
}

// flags writes the arguments and flags of a command by their groups.
func (w *roff) flags(title string, n *kong.Node) {
	var groups []string
	by := map[string][]*kong.Flag{}
	for _, f := range n.Flags {
		if f.Hidden {
			continue
		}
		group := ""
		if f.Group != nil {
			group = f.Group.Title
		}
		if by[group] == nil {
			groups = append(groups, group)
		}
		by[group] = append(by[group], f)
	}
	if title != "" && len(groups)+len(n.Positional) > 0 {
		w.line(".SH", title)
	}
	for _, p := range n.Positional {
		w.term(func() { w.text(italic(strings.ToUpper(p.Name))) }, HelpText(p))
	}
	slices.SortStableFunc(groups, func(a, b string) int { // those without a group come first
		return cmp.Compare(min(len(a), 1), min(len(b), 1))
	})
	for _, g := range groups {
		if g != "" {
			w.line(".SS", g)
		}
		for _, f := range by[g] {
			w.term(func() { w.text(flagTerm(f)) }, HelpText(f.Value))
		}
	}
}

// flagTerm returns a flag as people write it.
func flagTerm(f *kong.Flag) string {
	s := ""
	if f.Short != 0 {
		s = bold("-"+string(f.Short)) + ", "
	}
	s += bold("--" + f.Name)
	if f.Tag.Negatable != "" {
		s += ", " + bold("--no-"+f.Name)
	}
	if !f.IsBool() {
		s += " " + italic(strings.ReplaceAll(f.FormatPlaceHolder(), ",...", ""))
	}
	return s
}
