package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

func cleaned(pieces ...string) string {
	var b bytes.Buffer
	w := NewCleanWriter(&b)
	for _, p := range pieces {
		if n, err := w.Write([]byte(p)); n != len(p) || err != nil {
			panic("a bytes.Buffer cannot fail")
		}
	}
	w.Flush()
	return b.String()
}

func TestCleanWriter(t *testing.T) {
	for _, c := range []struct{ what, in, want string }{
		{"plain text", "a\tb\nü 漢字 🙂 é\n", "a\tb\nü 漢字 🙂 é\n"},
		{"escape sequence", "\x1b[31mred\x1b]0;title\a", `\u001b[31mred\u001b]0;title\u0007`},
		{"C0 and DEL", "\x00\b\v\f\r\x7f", `\u0000\u0008\u000b\u000c\u000d\u007f`},
		{"C1", "\u009b31m\u0085", `\u009b31m\u0085`},
		{"C1 as a byte", "\x9b31m", `\x9b31m`},
		{"bidi", "\u202egpj.exe\u202c \u2066x\u2069 \u200e\u200f\u061c",
			`\u202egpj.exe\u202c \u2066x\u2069 \u200e\u200f\u061c`},
		{"no width", "a\u200bb\u200c\u200d\u2060\ufeff\u00ad\u034f\u115f\u180e\ufe0f",
			`a\u200bb\u200c\u200d\u2060\ufeff\u00ad\u034f\u115f\u180e\ufe0f`},
		{"spaces and lines", "\u00a0\u2028\u2029\u3000", `\u00a0\u2028\u2029\u3000`},
		{"tags", "\U000e0041\U000e0100", `\udb40\udc41\udb40\udd00`},
		{"private", "\ue000\U00100000", `\ue000\udbc0\udc00`},
		{"not UTF-8", "é\xff\xc3(\xed\xa0\x80", `é\xff\xc3(\xed\xa0\x80`},
		{"incomplete character", "a\xe2\x80", `a\xe2\x80`},
		{"replacement character", "\ufffd", "\ufffd"},
	} {
		if got := cleaned(c.in); got != c.want {
			t.Errorf("%s: %q becomes %q, want %q", c.what, c.in, got, c.want)
		}
	}
	if got, want := OneLine("a\n\tb\x1b"), `a\n\tb\u001b`; got != want {
		t.Errorf("OneLine: %q, want %q", got, want)
	}
}

// FuzzCleanWriter: the output does not depend on how the input is divided, has no control characters, and keeps the
// meaning of JSON.
func FuzzCleanWriter(f *testing.F) {
	for _, s := range []string{"http://a.example/", "\x1b[2J", "\u009b2J", "a\u202eb\U000e0041",
		"é\xff\xe2\x80", "\\\u202e\"\n"} {
		f.Add(s, 2, 3)
	}
	f.Fuzz(func(t *testing.T, s string, i, j int) {
		got := cleaned(s)
		i, j = min(max(i, 0), len(s)), min(max(j, 0), len(s))
		if i > j {
			i, j = j, i
		}
		if pieces := cleaned(s[:i], s[i:j], s[j:]); pieces != got {
			t.Fatalf("%q becomes %q if written in pieces, %q if written at once", s, pieces, got)
		}
		if again := cleaned(got); again != got {
			t.Fatalf("%q becomes %q, which becomes %q if cleaned again", s, got, again)
		}
		for _, r := range got + OneLine(s) {
			if r == utf8.RuneError && !strings.Contains(s, "\ufffd") ||
				r != '\n' && r != '\t' && (!unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r)) {
				t.Fatalf("%q reaches the screen", r)
			}
		}
		if strings.ContainsAny(OneLine(s), "\n\t") {
			t.Fatalf("%q is not one line", OneLine(s))
		}
		doc, err := json.Marshal(map[string]string{"text": s})
		must.Do(t, err)
		var was, is map[string]string
		must.Do(t, json.Unmarshal(doc, &was))
		if err := json.Unmarshal([]byte(cleaned(string(doc))), &is); err != nil || was["text"] != is["text"] {
			t.Fatalf("the JSON text %q became %q, %v", was["text"], is["text"], err)
		}
	})
}
