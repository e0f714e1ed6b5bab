package input_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/orbweaver/orbweaver/internal/input"
)

// asFlag and asOption are two ways of giving settings. A percent sign in a name is no verb.
func asFlag(field string) string   { return "--" + field }
func asOption(field string) string { return "100%o." + field }

// A text names settings as its reader gives them. What a person has typed is never taken for a setting.
func TestConfigErrorText(t *testing.T) {
	inner := input.Errorf("{keys} %s: no; give {dir}", "{listen}")
	for _, c := range []struct {
		err                   *input.ConfigError
		field, value          string
		plain, flags, options string
		remedy                string
	}{
		{input.Errorf("{kappa} %d: only {partition} ring has it; leave it out, or give {partition} %s", 3, "x"),
			"kappa", "3", "kappa 3: only partition ring has it; leave it out, or give partition x",
			"--kappa 3: only --partition ring has it; leave it out, or give --partition x",
			"100%o.kappa 3: only 100%o.partition ring has it; leave it out, or give 100%o.partition x",
			"leave it out, or give --partition x"},
		{input.Errorf("{dir} %s: %.20q, 5%%", "a; {dir} b: c", "{agents}"), "dir", "a; {dir} b: c",
			`dir a; {dir} b: c: "{agents}", 5%`, `--dir a; {dir} b: c: "{agents}", 5%`,
			`100%o.dir a; {dir} b: c: "{agents}", 5%`, ""},
		{input.Errorf("no contact: crawling %s needs {contact}", "x"), "contact", "",
			"no contact: crawling x needs contact", "no contact: crawling x needs --contact",
			"no contact: crawling x needs 100%o.contact", ""},
		{input.Errorf("%s and %[1]s; give %s", "a", "b"), "", "", "a and a; give b", "a and a; give b",
			"a and a; give b", ""},
		{input.Errorf("{a-b}: %v, %s", fmt.Errorf("in: %w", inner), input.Say("as {c%s} %s", "}", "{d}")), "a-b", "",
			"a-b: in: keys {listen}: no; give dir, as {c}} {d}",
			"--a-b: in: --keys {listen}: no; give --dir, as {c}} {d}",
			"100%o.a-b: in: 100%o.keys {listen}: no; give 100%o.dir, as {c}} {d}", ""},
		{input.Errorf("{partition} hash: no"), "partition", "hash", "partition hash: no", "--partition hash: no",
			"100%o.partition hash: no", ""},
	} {
		if e := c.err; e.Field != c.field || e.Value != c.value || e.Error() != c.plain || e.In(asFlag) != c.flags ||
			e.In(asOption) != c.options || e.Remedy(asFlag) != c.remedy {
			t.Errorf("%q of %q: got\n%s\n%s\n%s\nremedy %q; want\n%s\n%s\n%s\nremedy %q", e.Value, e.Field, e.Error(),
				e.In(asFlag), e.In(asOption), e.Remedy(asFlag), c.plain, c.flags, c.options, c.remedy)
		}
	}
}

// An error of other packages names its settings at the beginning of lines. The cause of an error is found.
func TestSettingError(t *testing.T) {
	cause := errors.New("proxy x: no; see {dir} 5%\nthe proxy: no\ndns y\nexcluded")
	err := input.SettingError(cause)
	const want = "--proxy x: no; see {dir} 5%\nthe proxy: no\n--dns y\nexcluded"
	if got := input.Text(err, asFlag); got != want || err.Error() != cause.Error() || !errors.Is(err, cause) {
		t.Errorf("got %q and %q, want %q", got, err, want)
	}
	if got := input.Text(fmt.Errorf("%w\nmore", err), asFlag); got != want+"\nmore" {
		t.Errorf("wrapped: %q", got)
	}
	if err := input.Errorf("x").Because(cause); !errors.Is(err, cause) || input.Text(cause, asFlag) != cause.Error() {
		t.Errorf("%v has no cause", err)
	}
}
