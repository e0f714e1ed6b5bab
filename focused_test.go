package orbweaver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/classify"
)

// Fetch the pages about health first, by the model of topics in this package.
func ExampleFocused() {
	const medicine = "The doctor treats patients with this disease in the hospital. The drug reduces the symptoms of " +
		"an infection, and a clinical trial of the treatment shows fewer side effects. Nurses measure the blood " +
		"pressure, because diabetes and heart disease are a risk. The vaccine protects children from the virus. "
	const football = "The team won the match in the last minute, and the coach praised the players of the league. " +
		"The goalkeeper saved a penalty before the striker scored the second goal of the season. The fans in the " +
		"stadium cheered, because the club plays in the final of the championship against the winners of the cup. "
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		switch r.URL.Path {
		case "/":
			io.WriteString(w, `<a href="/f">The football league</a> <a href="/m">Treatment of a disease</a>`)
		case "/m":
			io.WriteString(w, medicine+medicine+`<a href="/m/1">The drug trial</a> <a href="/m/2">The vaccine</a>`)
		case "/f":
			io.WriteString(w, football+football+`<a href="/f/1">The coach of the team</a>`)
		}
	}))
	defer site.Close()
	dir, err := os.MkdirTemp("", "orbweaver")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	_, err = orbweaver.Crawl(context.Background(), orbweaver.Options{
		Dir:      filepath.Join(dir, "crawl"),
		Seeds:    []string{site.URL},
		Strategy: orbweaver.Focused(orbweaver.FocusedOptions{Topics: []string{"health"}}),
		OnPage: func(_ context.Context, p *orbweaver.Page) error {
			fmt.Println(p.Path())
			return nil
		},
		AllowPrivate: true, Delay: -1, // The site is on this machine.
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// /
	// /m
	// /m/1
	// /m/2
	// /f
	// /f/1
}

// seaModel is a file with a model of AIR and SEA.
func seaModel(t *testing.T, kind string) string {
	t.Helper()
	var texts []classify.Text
	for range 5 {
		for category, words := range map[string]string{"SEA": "ship harbour whale ", "AIR": "plane airport cloud "} {
			text := strings.Repeat(words+"the of and ", 10)
			texts = append(texts, classify.Text{Category: category, Text: text})
		}
	}
	m := must.Get(classify.Train(texts, classify.Training{Kind: kind, Features: classify.Words}))(t)
	name := filepath.Join(t.TempDir(), kind+".model")
	f := must.Get(os.Create(name))(t)
	defer f.Close()
	must.Do(t, m.Write(f, "a test"))
	return name
}

// TestFocused: the model of a file orders the links. In a cluster that divides pages by topic an agent may want its own
// categories; alone it has all, so the order is that of a breadth-first crawl.
func TestFocused(t *testing.T) {
	seed := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.URL.Path == "/" {
			io.WriteString(w, `<a href="/1">A plane</a> <a href="/2">A whale</a> <a href="/3">A cloud</a> `+
				`<a href="/4">The harbour</a>`)
		}
	})
	for _, c := range []struct {
		name    string
		topics  []string
		cluster *orbweaver.Cluster
		want    string
	}{
		{"sea", []string{"sea"}, nil, "/ /2 /4 /1 /3"},
		{"air", []string{"Air"}, nil, "/ /1 /3 /2 /4"},
		{"named in a cluster", []string{"sea"}, byTopic(), "/ /2 /4 /1 /3"},
		{"own", nil, byTopic(), "/ /1 /2 /3 /4"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			o := local(t, seed+"/")
			o.Cluster = c.cluster
			o.Strategy = orbweaver.Focused(orbweaver.FocusedOptions{Topics: c.topics,
				Model: seaModel(t, classify.Logistic)})
			var got []string
			o.OnPage = func(_ context.Context, p *orbweaver.Page) error {
				got = append(got, p.Path())
				return nil
			}
			if _, err := orbweaver.Crawl(t.Context(), o); err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("%v; got %q, want %s", err, got, c.want)
			}
		})
	}
}

// byTopic is a cluster of one agent.
func byTopic() *orbweaver.Cluster {
	return &orbweaver.Cluster{Name: "a1", Listen: "127.0.0.1:0", Partition: "topic"}
}

// TestFocusedOptions: mistakes name the field and what would be right.
func TestFocusedOptions(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.model")
	must.Do(t, os.WriteFile(broken, []byte("no model"), 0o600))
	for _, c := range []struct {
		o    orbweaver.FocusedOptions
		want string
	}{
		{orbweaver.FocusedOptions{}, "name some with FocusedOptions.Topics"},
		{orbweaver.FocusedOptions{Topics: []string{"fire"}},
			`FocusedOptions.Topics fire: "fire" is not a category`},
		{orbweaver.FocusedOptions{Topics: []string{"sea", "air"}, Model: seaModel(t, classify.Bayes)},
			"FocusedOptions.Topics sea,air: 2 of 2 categories are wanted"},
		{orbweaver.FocusedOptions{Topics: []string{"en"}, Model: filepath.Join(dir, "none")},
			"FocusedOptions.Model " + filepath.Join(dir, "none") + ": no such file or directory; give topics"},
		{orbweaver.FocusedOptions{Topics: []string{"en"}, Model: broken}, "FocusedOptions.Model " + broken + ": "},
		{orbweaver.FocusedOptions{Topics: []string{"sea"}, Model: seaModel(t, classify.Rocchio)},
			"rocchio.model: the model gives no probabilities"},
	} {
		_, err := orbweaver.Crawl(t.Context(), orbweaver.Options{Dir: filepath.Join(dir, "crawl"),
			Seeds: []string{"http://127.0.0.1/"}, Strategy: orbweaver.Focused(c.o)})
		if !errors.Is(err, orbweaver.ErrOptions) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.o, err, c.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "crawl")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused crawl has a directory: %v", err)
	}
}
