package cli

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A sampleProgram has each kind of thing that can be completed.
type sampleProgram struct {
	Crawl struct {
		Scope   string   `enum:",page,host" default:"" placeholder:"KIND" help:"Stay within this."`
		Kind    string   `enum:"one,two" default:"one" help:"Choose\n one."`
		Config  string   `placeholder:"FILE" help:"Read this."`
		Exclude []string `placeholder:"RE" help:"Leave this out."`
		Quiet   bool     `short:"q" help:"Print nothing."`
		Secret  bool     `hidden:""`
		Seed    []string `arg:"" optional:"" help:"Start here."`
	} `cmd:"" help:"Crawl. It starts at the seeds."`
	Warc struct {
		Dir string `placeholder:"DIR" help:"The folder."`
		Ls  struct {
			File []string `arg:"" help:"List this."`
		} `cmd:"" help:"List."`
		Cut struct {
			Page string `arg:"" help:"Cut this."`
			Form string `arg:"" enum:"a,b" help:"So."`
		} `cmd:"" help:"Cut's \\ end."`
	} `cmd:"" help:"Read archives."`
	Internal struct{} `cmd:"" hidden:""`
	Explain  struct {
		Command []string `arg:"" optional:"" help:"Explain this."`
	} `cmd:"" help:"Explain."`
}

func sample(t *testing.T) *kong.Application {
	t.Helper()
	p := must.Get(Parser("sample", "Do it.\n\n.Begin here:\n\n  sample crawl", &sampleProgram{}, NewOutput(io.Discard),
		NewOutput(io.Discard), func(int) {}))(t)
	return p.Model
}

func TestComplete(t *testing.T) {
	app := sample(t)
	for _, tt := range []struct {
		line  string // behind the program's name; the word behind the last space is completed
		want  string
		files Files
	}{
		{"", "crawl warc explain", NoFiles},
		{"c", "crawl", NoFiles},
		{"int", "", NoFiles},
		{"-", "--help", NoFiles},
		{"crawl --", "--help --scope --kind --config --exclude --quiet", NoFiles},
		{"crawl -q --", "--help --scope --kind --config --exclude", NoFiles},
		{"crawl --quiet --exclude x --exclude=y --q", "", NoFiles},
		{"crawl --exclude x --ex", "--exclude", NoFiles},
		{"crawl --scope ", "page host", NoFiles},
		{"crawl --scope h", "host", NoFiles},
		{"crawl --scope=", "--scope=page --scope=host", NoFiles},
		{"crawl --scope=h", "--scope=host", NoFiles},
		{"crawl --scope = h", "--scope=host", NoFiles}, // as bash splits it
		{"crawl --scope =", "--scope=page --scope=host", NoFiles},
		{"crawl --scope = host --k", "--kind", NoFiles},
		{"crawl --kind t", "two", NoFiles},
		{"crawl --config ", "", AllFiles},
		{"crawl --config=x", "", AllFiles},
		{"crawl --exclude ", "", NoFiles},
		{"crawl --quiet=", "", NoFiles},
		{"crawl --nothing=", "", NoFiles},
		{"crawl http://a.example/ ", "", NoFiles},
		{"crawl -- --", "", NoFiles},
		{"warc ", "ls cut", NoFiles},
		{"warc --dir ", "", Directories},
		{"warc ls --", "--help --dir", NoFiles},
		{"warc ls ", "", AllFiles},
		{"warc ls a b ", "", AllFiles},
		{"warc cut x ", "a b", NoFiles},
		{"warc cut x a ", "", NoFiles},
		{"warc cut -- ", "", AllFiles},
		{"explain ", "crawl warc explain", NoFiles},
		{"explain warc ", "ls cut", NoFiles},
		{"explain warc l", "ls", NoFiles},
		{"explain warc ls ", "", NoFiles},
		{"explain nothing ", "", NoFiles},
	} {
		c := Complete(app, strings.Split(tt.line, " "))
		var got []string
		for _, w := range c.Words {
			got = append(got, w.Word)
		}
		if !slices.Equal(got, strings.Fields(tt.want)) || c.Files != tt.files {
			t.Errorf("%q: got %q and %s, want %q and %s", tt.line, got, c.Files, tt.want, tt.files)
		}
	}
	if got, want := Complete(app, nil).String(), Complete(app, []string{""}).String(); got != want {
		t.Errorf("no words: got %q, want %q", got, want)
	}
	got, want := Complete(app, []string{"crawl", "--k"}).String(), "none\n--kind\tChoose one (default: one).\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestManual(t *testing.T) {
	m := Manual{App: sample(t), Version: "1.2.3", Date: "2026-01-02", Sections: map[string][]Section{
		"sample-warc": {{Title: "FILES", Text: "These:", Entries: [][2]string{{"a-b", "Ünlike c."}}}},
	}}
	pages := []string{"sample", "sample-crawl", "sample-warc", "sample-explain"}
	if got := m.Pages(); !slices.Equal(got, pages) {
		t.Errorf("pages %q, want %q", got, pages)
	}
	for page, want := range map[string][]string{
		"sample": {
			`.TH "SAMPLE" "1" "2026\-01\-02" "sample 1.2.3" "User Commands"` + "\n",
			".SH \"NAME\"\nsample \\- do it\n",
			".br\n\\fBsample warc ls\\fR [\\fIflags\\fR] \\fIFILE\\fR ...\n",
			"\n\\&.Begin here:\n.PP\n.RS 4\n.EX\nsample crawl\n.EE\n.RE\n",
			".TP\n\\fBsample\\-crawl\\fR(1)\nCrawl. It starts at the seeds.\n",
		},
		"sample-crawl": {
			"sample\\-crawl \\- crawl\n.SH", "\\fBsample crawl\\fR [\\fIflags\\fR] [\\fISEED\\fR ...]\n",
			".TP\n\\fISEED\\fR\nStart here.\n", ".TP\n\\fB\\-q\\fR, \\fB\\-\\-quiet\\fR\nPrint nothing.\n",
			".TP\n\\fB\\-\\-exclude\\fR \\fIRE\\fR\nLeave this out.\n",
		},
		"sample-warc": {
			".TP\n\\fB\\-\\-dir\\fR \\fIDIR\\fR\nThe folder.\n", ".SS \"warc cut\"\nCut\\(aqs \\e end.\n",
			".SH \"FILES\"\nThese:\n.TP\n\\fBa\\-b\\fR\n\\[u00DC]nlike c.\n",
			".SH \"SEE ALSO\"\n\\fBsample\\fR(1),\n\\fBsample\\-crawl\\fR(1),\n",
		},
	} {
		got, ok := m.Page(page)
		for _, part := range want {
			if !ok || !strings.Contains(got, part) {
				t.Errorf("%s lacks %q:\n%s", page, part, got)
			}
		}
		if strings.Contains(got, "secret") {
			t.Errorf("%s has a hidden flag", page)
		}
	}
	for _, page := range []string{"", "crawl", "sample-internal", "sample-ls"} {
		if _, ok := m.Page(page); ok {
			t.Errorf("there is a page %q", page)
		}
	}
}
