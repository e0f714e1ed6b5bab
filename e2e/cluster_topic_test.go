package e2e

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// Texts of three categories of the program's model.
var textsByTopic = []string{
	`The football team won the league match. The coach praised the players, and the striker scored two goals in
the second half of the season. Fans filled the stadium to see the championship final, and the goalkeeper saved a
penalty. The club signed a new defender before the tournament, while the captain of the national team trained for the
world cup. Referees, athletes and the hockey league agreed on new rules for games, sports, tennis and baseball.`,
	`Physicists measured the energy of electrons and protons in the nucleus of atoms. The chemical reaction of hydrogen
with oxygen forms water molecules. Biologists study cells, proteins and the evolution of species by natural selection,
and astronomers observe planets, stars and galaxies with telescopes. The theory of quantum mechanics and relativity
explains the particles, their mass, gravity and light. Mathematics and equations help scientists in the laboratory.`,
	`The recipe needs two cups of flour, three eggs, butter, sugar and a pinch of salt. Mix the dough, knead it, and
bake it in the oven until golden. Chop the onion, garlic and tomatoes, fry them in olive oil, add pepper and basil, and
simmer the sauce for twenty minutes. Serve the soup with bread, cheese and a salad. Cook the rice, boil the potatoes and
roast the chicken with thyme and lemon juice.`,
}

// turning serves pages with texts of different topics. A page /turn changes its topic after the first request, for
// good. The others never change, and a page /same has a validator. All link to the page /none, which is empty.
type turning struct {
	mu   sync.Mutex // guards seen
	seen map[string]bool
}

const turningPages = 4 // of each kind

func (w *turning) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	var kind string
	var n, turned int
	rw.Header().Set("Content-Type", "text/html")
	if _, err := fmt.Sscanf(req.URL.Path, "/%4s/%d", &kind, &n); err != nil {
		if req.URL.Path != "/" {
			http.NotFound(rw, req)
			return
		}
		for i := range turningPages {
			fmt.Fprintf(rw, "<a href=/turn/%d>t</a> <a href=/same/%d>s</a> <a href=/rest/%d>r</a>\n", i, i, i)
		}
		fmt.Fprintf(rw, "<p>%s", textsByTopic[0])
		return
	}
	switch kind {
	case "none":
		return
	case "same":
		rw.Header().Set("ETag", `"same"`)
		if req.Header.Get("If-None-Match") == `"same"` {
			rw.WriteHeader(http.StatusNotModified)
			return
		}
	case "turn":
		w.mu.Lock()
		if w.seen[req.URL.Path] {
			turned = 1
		}
		w.seen[req.URL.Path] = true
		w.mu.Unlock()
	}
	fmt.Fprintf(rw, "<title>%s %d</title><a href=/>home</a><a href=/none/0>none</a><p>%s", kind, n,
		textsByTopic[(n+turned)%len(textsByTopic)])
}

// Three agents that divide pages by topic visit them again and again. Each version of a page is archived in full once,
// at the agent of its topic, and unchanged pages become revisits. If links alone travel, each agent archives what it
// has fetched.
func TestClusterTopicRecrawl(t *testing.T) {
	for _, boundary := range []string{"contents", "urls"} {
		t.Run(boundary, func(t *testing.T) { recrawlByTopic(t, boundary) })
	}
}

func recrawlByTopic(t *testing.T, boundary string) {
	weighs(t, 3)
	const host, delay, rounds = "turning.example", 8 * time.Millisecond, 3
	web := serve(t, testweb.Config{
		Sites:   []testweb.Site{{Host: host, Handler: &turning{seen: map[string]bool{}}, Scheme: "http"}},
		Promise: testweb.Promise{HostDelay: delay}, KeepURLs: 1 << 10,
	})
	ps, homes := together(t, web, 3, func(int) []string { return []string{"http://" + host + "/"} }, "--delay",
		delay.String(), "--ip-delay", "0", "--site-delay", "0", "--partition", "topic", "--boundary", boundary,
		"--strategy", "recrawl", "--recrawl-min", "200ms", "--recrawl-max", "800ms", "--recrawl-rounds",
		fmt.Sprint(rounds))
	finished(t, ps, homes)
	full := map[string]map[int]int{} // by URL and digest: number of full records by agent
	var changed, unchanged, exported float64
	kept, empty := 0, 0 // empty: agents that have archived the empty page as one of theirs
	for i, home := range homes {
		s := summary(t, home)
		changed, unchanged = changed+s["changed"].(float64), unchanged+s["unchanged"].(float64)
		if moved, ok := s["pages_moved"].(map[string]any); ok { // with --boundary urls no page moves
			exported += moved["exported"].(float64)
		}
		verify(t, home)
		n, none := toldTopics(t, home, boundary == "contents")
		kept += n
		if none > 0 {
			empty++
		}
		fullRecords(t, home, func(version string) {
			if full[version] == nil {
				full[version] = map[int]int{}
			}
			full[version][i]++
		})
	}
	noViolations(t, web)
	const pages = 2 + 3*turningPages
	if empty == 0 || boundary == "contents" && empty > 1 {
		t.Errorf("%d agents keep the empty page", empty)
	}
	if kept < pages {
		t.Errorf("%d pages with a category are archived, of %d", kept, pages)
	}
	if changed < turningPages || unchanged < (rounds-1)*pages {
		t.Errorf("%v pages changed and %v did not", changed, unchanged)
	}
	versions, apart := map[string]int{}, 0
	for version, by := range full {
		url, _, _ := strings.Cut(version, " ")
		versions[url]++
		if n := len(by); boundary == "contents" && n > 1 && !strings.HasSuffix(url, "/none/0") {
			t.Errorf("%s is archived in full at several agents: %v", version, by)
		}
		for i, n := range by {
			if n != 1 && !strings.HasSuffix(url, "/none/0") { // no record refers to an empty payload
				t.Errorf("%s is archived in full %d times at a%d", version, n, i+1)
			}
		}
	}
	for i := range turningPages {
		turn := fmt.Sprintf("http://%s/turn/%d", host, i)
		at := map[int]bool{}
		for version, by := range full {
			if strings.HasPrefix(version, turn+" ") {
				for agent := range maps.Keys(by) {
					at[agent] = true
				}
			}
		}
		if versions[turn] != 2 {
			t.Errorf("%s is archived in %d versions", turn, versions[turn])
		}
		if len(at) > 1 {
			apart++
		}
	}
	if boundary == "contents" && (apart == 0 || exported == 0) || boundary == "urls" && exported > 0 {
		t.Errorf("%d pages have versions at different agents; %v pages were sent", apart, exported)
	}
}

// topicNames are the categories of textsByTopic in the program's model.
var topicNames = []string{"SPORTS", "SCIENCE", "HOME"}

// toldTopics checks the categories of pages in an agent's archive and in its crawl.log. If pages move, an agent that
// keeps pages of a category keeps no other agent's. It returns the number of pages with a category in the archive, and
// how often the empty page is one of them.
func toldTopics(t *testing.T, dir string, moves bool) (pages, empty int) {
	t.Helper()
	archived, logged := map[string]int{}, map[string]int{} // by "/kind/N CATEGORY"
	files, _ := filepath.Glob(filepath.Join(dir, "archive", "*.warc.gz"))
	for _, name := range files {
		f, err := os.Open(name)
		must.Do(t, err)
		z := must.Get(gzip.NewReader(f))(t)
		all, err := io.ReadAll(z)
		must.Do(t, errors.Join(err, f.Close()))
		for record := range strings.SplitSeq(string(all), "WARC/1.1\r\n") {
			_, url, _ := strings.Cut(record, "WARC-Target-URI: http://turning.example")
			if url, _, _ = strings.Cut(url, "\r\n"); !strings.Contains(record, "WARC-Type: metadata\r\n") {
				continue
			}
			if _, category, ok := strings.Cut(record, "\r\ncategory: "); ok {
				category, _, _ = strings.Cut(category, "\r\n")
				archived[url+" "+category]++
			}
		}
	}
	log := must.Get(os.ReadFile(filepath.Join(dir, "logs", "crawl.log")))(t)
	for line := range strings.Lines(string(log)) {
		f := strings.Fields(line)
		notes := strings.Split(f[11], ",")
		for _, n := range notes {
			if category, ok := strings.CutPrefix(n, "category:"); ok && !slices.Contains(notes, "exported") {
				logged[strings.TrimPrefix(f[3], "http://turning.example")+" "+category]++
			}
		}
	}
	if !maps.Equal(archived, logged) {
		t.Errorf("categories in %s by crawl.log: %v;\nin its archive: %v", dir, logged, archived)
	}
	kept := map[string]int{}
	for page, times := range archived {
		path, category, _ := strings.Cut(page, " ")
		kept[category] += times
		n := 0 // of its text; the first page has few words of its own
		if path != "/" {
			fmt.Sscanf(path[len("/turn/"):], "%d", &n)
		}
		right := category == topicNames[n%3] || strings.HasPrefix(path, "/turn") && category == topicNames[(n+1)%3]
		if path == "/none/0" {
			empty += times
			right = category == "UNCLASSIFIABLE"
		}
		if !right && path != "/" {
			t.Errorf("%s in %s has the category %s", path, dir, category)
		}
	}
	var r struct {
		Kept []struct {
			Name  string
			Count int
		} `json:"by_category"`
	}
	must.Do(t, json.Unmarshal([]byte(crawl(t.Context(), t, "report", "--json", dir).must(t, 0).stdout), &r))
	topics := 0
	for _, c := range r.Kept {
		if slices.Contains(topicNames, c.Name) {
			topics++
		}
		if kept[c.Name] -= c.Count; kept[c.Name] != 0 {
			t.Errorf("%s: the report has %d more pages of %s than the archive", dir, -kept[c.Name], c.Name)
		}
	}
	if moves && topics == len(topicNames) {
		t.Errorf("%s has pages of all topics", dir)
	}
	return len(archived), empty
}

// fullRecords passes the URL and the digest of each record of a page that is no revisit to fn.
func fullRecords(t *testing.T, dir string, fn func(version string)) {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(dir, "indexes", "index.cdxj")))(t)
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(line, " ", 3)
		var r struct{ URL, Mime, Digest, Status string }
		if err := json.Unmarshal([]byte(f[len(f)-1]), &r); err != nil {
			t.Fatalf("index line %q: %v", line, err)
		}
		if r.Mime != "warc/revisit" && r.Status == "200" {
			fn(r.URL + " " + r.Digest)
		}
	}
}
