package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

const (
	alertsFile    = "../deploy/prometheus/orbweaver-alerts.yml"
	alertsTests   = "../deploy/prometheus/orbweaver-alerts_test.yml"
	scrapeExample = "../deploy/prometheus/prometheus.yml"
	dashboards    = "../deploy/grafana/*.json"

	prometheusGuide = "../docs/prometheus.md"
)

// needs returns the path of a program of Prometheus.
func needs(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		missing(t, program+" (apt-get install --no-install-recommends prometheus)")
	}
	return path
}

// promtool runs promtool in the soak. It must succeed.
func promtool(t *testing.T, stdin io.Reader, args ...string) {
	t.Helper()
	if !testtier.Soak() {
		return
	}
	cmd := exec.Command(needs(t, "promtool"), args...)
	cmd.Stdin = stdin
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// An alertRule is a rule of alertsFile: an alert or a recorded expression.
type alertRule struct {
	Alert, Record, Expr string
	Labels, Annotations map[string]string
}

// alertRules reads the rules.
func alertRules(t *testing.T) (rules []alertRule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alertRule } }
	readYAML(t, alertsFile, &file)
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	if len(rules) < 20 {
		t.Fatalf("%s has %d rules", alertsFile, len(rules))
	}
	return rules
}

func readYAML(t *testing.T, name string, to any) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err == nil {
		err = yaml.Unmarshal(b, to)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// A panel of a dashboard of Grafana.
type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct{ RefID, Expr string }
}

// A dashboard of Grafana.
type dashboard struct {
	UID, Title  string
	Panels      []panel
	Templating  struct{ List []struct{ Name string } }
	Annotations struct{ List []struct{ Expr string } }
}

// queries returns the queries of the guide, and those of all dashboards as Grafana sends them to Prometheus.
func queries(t *testing.T) (queries []string) {
	t.Helper()
	_, blocks, _ := strings.Cut(string(must.Get(os.ReadFile(prometheusGuide))(t)), "```promql\n")
	block, _, found := strings.Cut(blocks, "```")
	if !found {
		t.Fatalf("%s has no queries", prometheusGuide)
	}
	for line := range strings.Lines(block) {
		if !strings.HasPrefix(line, "#") {
			queries = append(queries, strings.TrimSpace(line))
		}
	}
	names, err := filepath.Glob(dashboards)
	if err != nil || len(names) == 0 {
		t.Fatalf("no dashboard %s: %v", dashboards, err)
	}
	asSent := strings.NewReplacer("$job", "orbweaver-e2e", "$instance", ".*", "$__rate_interval", "1m")
	for _, name := range names {
		var d dashboard
		b, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(b, &d)
		}
		if err != nil || d.UID == "" || d.Title == "" || len(d.Panels) == 0 {
			t.Fatalf("%s: %v, uid %q, title %q, %d panels", name, err, d.UID, d.Title, len(d.Panels))
		}
		checkPanels(t, name, d.Panels)
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				queries = append(queries, asSent.Replace(target.Expr))
			}
		}
		for _, a := range d.Annotations.List {
			queries = append(queries, asSent.Replace(a.Expr))
		}
	}
	for _, q := range queries {
		if strings.Contains(q, "$") {
			t.Errorf("the guide or a dashboard has a query with an unknown variable: %s", q)
		}
	}
	return queries
}

// checkPanels checks that each panel says what it shows, and that no two of them overlap.
func checkPanels(t *testing.T, name string, panels []panel) {
	t.Helper()
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" {
			t.Errorf("%s: panel %d %q: the number is there twice, or there is no title", name, p.ID, p.Title)
		}
		ids[p.ID] = true
		if p.Type != "row" && (p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0) {
			t.Errorf("%s: panel %q has no description, unit or query", name, p.Title)
		}
		if p.GridPos.X < 0 || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W < 1 || p.GridPos.H < 1 {
			t.Errorf("%s: panel %q is not on the grid: %+v", name, p.Title, p.GridPos)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other, taken := cells[cell]; taken {
					t.Fatalf("%s: panels %q and %q overlap", name, p.Title, other)
				}
				cells[cell] = p.Title
			}
		}
	}
}

var (
	ownMetric   = regexp.MustCompile(`\borbweaver_\w+`)
	otherMetric = regexp.MustCompile(`\b(?:go|process)_\w+|\bup\b`)
)

// TestAlertsAreTested: for each alert there is a test in which it fires and one in which it does not, and the guide
// explains it. In the soak, promtool finds the rules valid, and they pass their tests.
func TestAlertsAreTested(t *testing.T) {
	weighs(t, 1)
	promtool(t, nil, "check", "rules", "--lint-fatal", alertsFile)
	promtool(t, nil, "test", "rules", alertsTests)
	promtool(t, nil, "check", "config", "--syntax-only", scrapeExample)
	var tests struct {
		Tests []struct {
			Rules []struct {
				Name string `yaml:"alertname"`
				Want []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	readYAML(t, alertsTests, &tests)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, r := range test.Rules {
			if len(r.Want) > 0 {
				fires[r.Name] = true
			} else {
				silent[r.Name] = true
			}
		}
	}
	guide := must.Get(os.ReadFile(prometheusGuide))(t)
	for _, r := range alertRules(t) {
		if r.Alert == "" {
			continue
		}
		if !fires[r.Alert] || !silent[r.Alert] {
			t.Errorf("%s: a test in which it fires: %v, and one in which it does not: %v", r.Alert, fires[r.Alert],
				silent[r.Alert])
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) ||
			r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s: it needs a severity, a summary and a description", r.Alert)
		}
		if !strings.Contains(string(guide), "| `"+r.Alert+"` |") {
			t.Errorf("docs/prometheus.md does not explain %s", r.Alert)
		}
	}
}

// TestQueriesNameMetrics: every metric that an alert, a dashboard or the guide names is in docs/reference/metrics.md.
// In the soak, promtool finds every query valid.
func TestQueriesNameMetrics(t *testing.T) {
	weighs(t, 1)
	page := must.Get(os.ReadFile("../docs/reference/metrics.md"))(t)
	queries := queries(t)
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: dashboards\n    rules:\n")
	for i, q := range queries {
		fmt.Fprintf(&rules, "      - record: panel:%d\n        expr: %q\n", i, q)
	}
	file := filepath.Join(t.TempDir(), "queries.yml")
	must.Do(t, os.WriteFile(file, []byte(rules.String()), 0o644))
	promtool(t, nil, "check", "rules", "--lint=none", file)
	recorded := map[string]bool{}
	for _, r := range alertRules(t) {
		recorded[strings.TrimPrefix(r.Record, "job:")] = r.Record != ""
		queries = append(queries, r.Expr)
	}
	named := map[string]bool{}
	for _, q := range queries {
		for _, m := range ownMetric.FindAllStringIndex(q, -1) {
			name := q[m[0]:m[1]]
			if isRecorded := m[0] > 0 && q[m[0]-1] == ':'; isRecorded {
				continue
			}
			named[name] = true
			series := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")
			if !strings.Contains(string(page), "| `"+series+"` |") {
				t.Errorf("a query names %s, which docs/reference/metrics.md does not have: %s", name, q)
			}
		}
	}
	if len(named) < 30 {
		t.Errorf("the queries name %d metrics", len(named))
	}
}

// A monitor is a running Prometheus.
type monitor struct {
	t    *testing.T
	addr string
	p    *process
}

// query returns the number of each sample of an expression, by its label instance.
func (m *monitor) query(expr string) map[string]string {
	m.t.Helper()
	got, err := m.ask("query", expr)
	if err != nil {
		m.t.Fatalf("query %s: %v", expr, err)
	}
	return got
}

func (m *monitor) ask(path, expr string) (map[string]string, error) {
	res, err := http.Get("http://" + m.addr + "/api/v1/" + path + "?query=" + url.QueryEscape(expr))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s", answer.Error)
	}
	values := map[string]string{}
	for _, r := range answer.Data.Result {
		values[r.Metric["instance"]] = fmt.Sprint(r.Value[1])
	}
	return values, nil
}

// waitFor waits until an expression has n samples.
func (m *monitor) waitFor(expr string, n int) {
	m.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		got, err := m.ask("query", expr)
		if err == nil && len(got) == n {
			return
		}
		if !m.p.lives(100*time.Millisecond) || time.Now().After(end) {
			m.t.Fatalf("%s has %v, not %d samples: %v\n%s", expr, got, n, err, tail(m.p.out.String()))
		}
	}
}

// scrapes starts a Prometheus that scrapes the agents with these directories, with the rules and in the manner of our
// example.
func scrapes(t *testing.T, homes ...string) *monitor {
	t.Helper()
	program := needs(t, "prometheus")
	var example map[string]any
	readYAML(t, scrapeExample, &example)
	rules := must.Get(filepath.Abs(alertsFile))(t)
	example["rule_files"] = []string{rules}
	example["global"] = map[string]string{"scrape_interval": "200ms", "scrape_timeout": "200ms",
		"evaluation_interval": "200ms"}
	first := example["scrape_configs"].([]any)[0].(map[string]any)
	var jobs []map[string]any
	for i, home := range homes {
		job := map[string]any{}
		for k, v := range first {
			job[k] = v
		}
		job["job_name"] = fmt.Sprint("a", i+1)
		job["authorization"] = map[string]any{"credentials_file": filepath.Join(home, crawldir.TokenFile)}
		job["static_configs"] = []any{map[string]any{"targets": []string{apiOf(t, home).Addr}}}
		job["relabel_configs"] = []any{map[string]any{"target_label": "job", "replacement": "orbweaver-e2e"}}
		jobs = append(jobs, job)
	}
	example["scrape_configs"] = jobs
	text := must.Get(yaml.Marshal(example))(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	must.Do(t, os.WriteFile(file, text, 0o644))
	m := &monitor{t: t, addr: port(t)}
	m.p = startCommand(t, exec.Command(program, "--config.file", file,
		"--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", m.addr))
	return m
}

// apiOf waits for the API of an agent.
func apiOf(t *testing.T, home string) (api node.APIAccess) {
	t.Helper()
	for end := time.Now().Add(time.Minute); api.Addr == ""; time.Sleep(10 * time.Millisecond) {
		if b, err := os.ReadFile(filepath.Join(home, crawldir.APIFile)); err == nil {
			_ = json.Unmarshal(b, &api) // the file exists as a whole or not at all
		}
		if time.Now().After(end) {
			t.Fatalf("%s: no API", home)
		}
	}
	return api
}

// TestPrometheus: Debian's Prometheus scrapes a crawl of three agents with our rules. The metrics follow its
// conventions, all queries of rules and dashboards can be asked, and the alert fires for an agent that is killed.
func TestPrometheus(t *testing.T) {
	weighs(t, 4)
	needs(t, "prometheus")
	b := bandOf(t, gen.Plain(36, 30), 100*time.Millisecond, 3, "2")
	var homes []string
	for i := range 3 {
		b.begin(i, "--agents", "3", "--api", "127.0.0.1:0", b.seed())
		homes = append(homes, b.home(i))
	}
	b.await(20)
	m := scrapes(t, homes...)
	m.waitFor(`up{job="orbweaver-e2e"} == 1`, 3)
	m.waitFor(`orbweaver_crawl_pages_total > 0`, 3)
	m.waitFor(`orbweaver_crawl_ready == 1`, 3)
	m.waitFor(`count by (instance) (orbweaver_agent_info{agent=~"a[123]"})`, 3)
	m.waitFor(`count by (instance) (orbweaver_build_info{version!="", goversion=~"go.+"})`, 3)
	m.waitFor(`sum by (instance) (orbweaver_fetch_responses_total{code="200"}) > 0`, 3)
	for _, phase := range []string{"dns", "connect", "wait", "receive"} {
		m.waitFor(`orbweaver_fetch_duration_seconds_count{phase="`+phase+`"} > 0`, 3)
	}
	m.waitFor(`orbweaver_crawl_paused == 0`, 3)
	crawl(t.Context(), t, "ctl", "--dir", homes[1], "pause").must(t, 0) // so that the crawl does not end
	m.waitFor(`orbweaver_crawl_paused == 1`, 3)

	page := metrics(t, homes[0])
	promtool(t, strings.NewReader(page), "check", "metrics")
	for _, label := range []string{"host=", "domain=", "url="} {
		if strings.Contains(page, label) {
			t.Errorf("a metric has a label %s", label)
		}
	}

	queries := queries(t)
	for _, r := range alertRules(t) {
		queries = append(queries, r.Expr)
	}
	for _, q := range queries {
		m.query(q)
		for _, name := range otherMetric.FindAllString(q, -1) {
			if len(m.query(name)) == 0 {
				t.Errorf("no sample of %s, which a query names: %s", name, q)
			}
		}
	}
	for _, q := range []string{"orbweaver_disk_free_bytes > 0", "orbweaver_time_seconds > 1e9",
		"orbweaver_cluster_agents == 3", "abs(orbweaver_time_seconds - timestamp(orbweaver_time_seconds)) < 60"} {
		m.waitFor(q, 3)
	}

	m.waitFor(`ALERTS{alertname="OrbweaverAgentDown"}`, 0)
	b.ps[2].kill()
	m.waitFor(`ALERTS{alertname="OrbweaverAgentDown", alertstate="pending"}`, 1)
}
