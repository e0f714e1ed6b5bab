package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

var exact = RankConfig{Damping: Damping, Tolerance: 1e-14, Iterations: 1000}

func TestPageRankByHand(t *testing.T) {
	for _, c := range []struct {
		lists [][]uint32
		want  []float64
	}{
		{[][]uint32{nil}, []float64{1}},
		{[][]uint32{{1}, {0}}, []float64{.5, .5}},
		{[][]uint32{nil, nil, nil, nil}, []float64{.25, .25, .25, .25}},
		// b = j + .85a; a = j; j = .15/2 + .85/2*b; a + b = 1
		{[][]uint32{{1}, nil}, []float64{1 / 2.85, 1.85 / 2.85}},
	} {
		r, err := PageRank(memory(c.lists), exact)
		if err != nil || !r.Converged {
			t.Fatal(r, err)
		}
		for i, x := range r.Of {
			if math.Abs(x-c.want[i]) > 1e-14 {
				t.Errorf("%v: got %v, want %v", c.lists, r.Of, c.want)
			}
		}
	}
	if _, err := PageRank(memory(nil), exact); !errors.Is(err, ErrEmpty) {
		t.Errorf("without nodes: %v", err)
	}
	stop := errors.New("stop")
	c := exact
	c.Step = func(i int, _ float64) error { return map[bool]error{true: stop}[i == 2] }
	if _, err := PageRank(memory([][]uint32{{1}, {2}, {0, 1}}), c); !errors.Is(err, stop) {
		t.Errorf("an error of Step: %v", err)
	}
	c = RankConfig{Damping: Damping, Iterations: 3}
	if r, err := PageRank(memory([][]uint32{{1}, nil}), c); err != nil || r.Iterations != 3 || r.Converged {
		t.Errorf("3 iterations: %+v, %v", r, err)
	}
}

// No graph needs more than 90 iterations with the defaults.
func TestPageRankConverges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r, err := PageRank(memory(drawLists(rt)), RankConfig{Damping: Damping, Tolerance: Tolerance, Iterations: 90})
		if err != nil || !r.Converged {
			rt.Fatal(r, err)
		}
	})
}

// slowKendall looks at all pairs.
func slowKendall(pairs []Pair) (c Correlation) {
	c.Nodes = int64(len(pairs))
	for i, p := range pairs {
		for _, q := range pairs[:i] {
			c.Pairs++
			a, b := p.A == q.A, p.B == q.B
			switch {
			case a && b:
				c.TiesBoth++
				c.TiesA++
				c.TiesB++
			case a:
				c.TiesA++
			case b:
				c.TiesB++
			case (p.A < q.A) == (p.B < q.B):
				c.Concordant++
			default:
				c.Discordant++
			}
		}
	}
	return c
}

func TestKendallAgreesWithAllPairs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		values := rapid.IntRange(1, 12).Draw(rt, "values")
		pairs := rapid.SliceOf(rapid.Custom(func(rt *rapid.T) Pair {
			rank := rapid.IntRange(0, values)
			return Pair{float64(rank.Draw(rt, "a")), float64(rank.Draw(rt, "b"))}
		})).Draw(rt, "pairs")
		want := slowKendall(pairs)
		got, err := Kendall(pairs)
		switch {
		case len(pairs) < 2:
			if !errors.Is(err, ErrFew) {
				rt.Fatal(err)
			}
			return
		case want.TiesA == want.Pairs && !errors.Is(err, ErrTiedA),
			want.TiesA < want.Pairs && want.TiesB == want.Pairs && !errors.Is(err, ErrTiedB):
			rt.Fatal(err)
		}
		if got != want {
			rt.Fatalf("got %+v, want %+v", got, want)
		}
		if tau := got.Tau(); err == nil && (math.IsNaN(tau) || tau < -1 || tau > 1) {
			rt.Fatal(tau)
		}
	})
}

func TestJoin(t *testing.T) {
	most := 0
	join := func(digits int, a, b string) ([]Pair, error) {
		j := NewJoiner(extsort.Config{Prefix: filepath.Join(t.TempDir(), "s"), Memory: 100})
		defer j.Close()
		j.Digits, j.Most = digits, most
		if _, err := j.Read(0, strings.NewReader(a)); err != nil {
			return nil, err
		}
		if _, err := j.Read(1, strings.NewReader(b)); err != nil {
			return nil, err
		}
		return j.Pairs()
	}
	got, err := join(0, "0.5\ta\n1e-3\tab\n2\tonly a\n", "3\tb\n0.25\tab\n-1\ta\n")
	if want := []Pair{{.5, -1}, {1e-3, .25}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, want %v; %v", got, want, err)
	}
	for most = range 3 {
		_, err := join(0, "1\ta\n2\tb\n3\tc\n", "1\ta\n2\tb\n4\td\n")
		if few := most == 1; few != errors.Is(err, ErrMemory) || !few && err != nil {
			t.Errorf("of two nodes in both files, at most %d: %v", most, err)
		}
	}
	most = 0
	got, err = join(2, "0.123\ta\n", "129\ta\n")
	if want := []Pair{{.12, 130}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("two digits: %v, %v", got, err)
	}
	for text, want := range map[string]string{
		"x\ta\n":       `line 1: the rank "x"; give a number, such as 0.25 or 1e-7`,
		"NaN\ta\n":     `line 1: the rank "NaN"; give a number`,
		"0x1p-2\ta\n":  `line 1: the rank "0x1p-2"; give a number`,
		"1\ta\n1\n":    `line 2: "1"; give a rank, a tab and the name of a node`,
		"1\ta\n2\ta\n": `the node "a" is there twice in the first file; give each node one rank`,
	} {
		if _, err := join(0, text, "1\ta\n"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	line := string(AppendRank(nil, 0.1, []byte("http://a.example/")))
	if line != "0.1\thttp://a.example/\n" {
		t.Errorf("a line: %q", line)
	}
}

// scipyJudge solves the equations of PageRank, and computes Kendall's tau-b, for each case on standard input.
const scipyJudge = `
import json, sys
import numpy as np
from scipy.sparse import coo_matrix, identity
from scipy.sparse.linalg import spsolve
from scipy.stats import kendalltau

cases = json.load(sys.stdin)
out = {"ranks": [], "taus": []}
for c in cases["graphs"]:
    n, d = c["n"], c["damping"]
    e = np.array(c["edges"], dtype=int).reshape(-1, 2)
    a = coo_matrix((np.ones(len(e)), (e[:, 0], e[:, 1])), shape=(n, n)).tocsr()
    degree = np.asarray(a.sum(axis=1)).ravel()
    p = coo_matrix((1 / degree[e[:, 0]], (e[:, 1], e[:, 0])), shape=(n, n)).tocsc()
    # x = d P x + (jump) 1/n for any jump: the solution for jump 1 is x up to its scale.
    x = spsolve((identity(n) - d * p).tocsc(), np.ones(n) / n)
    out["ranks"].append(list(x / x.sum()))
for a, b in cases["lists"]:
    out["taus"].append(kendalltau(a, b, variant="b").statistic)
json.dump(out, sys.stdout)
`

// TestSciPyAgrees compares PageRank with the solution of its equations, and Kendall with that of SciPy.
func TestSciPyAgrees(t *testing.T) {
	testtier.OnlySoak(t, "SciPy is slow to install")
	venv := os.Getenv("ORBWEAVER_VENV")
	if venv == "" {
		testneed.Missing(t, "ORBWEAVER_VENV is not set; it must name a virtual environment with scipy")
	}
	python := filepath.Join(venv, "bin", "python")
	if out, err := exec.Command(python, "-c", "import scipy").CombinedOutput(); err != nil {
		testneed.Missing(t, fmt.Sprintf("scipy in %s: %v %s", venv, err, out))
	}
	rnd := testseed.Rand(t)
	type graphCase struct {
		N       int        `json:"n"`
		Damping float64    `json:"damping"`
		Edges   [][2]int64 `json:"edges"`
	}
	var in struct {
		Graphs []graphCase    `json:"graphs"`
		Lists  [][2][]float64 `json:"lists"`
	}
	var graphs [][][]uint32
	for _, n := range []int{1, 2, 3, 10, 100, 1000, 3000} {
		lists := randomLists(rnd, n)
		c := graphCase{N: n, Damping: []float64{0, .5, .85, .99}[rnd.IntN(4)], Edges: [][2]int64{}}
		for from, l := range lists {
			for _, to := range l {
				c.Edges = append(c.Edges, [2]int64{int64(from), int64(to)})
			}
		}
		graphs, in.Graphs = append(graphs, lists), append(in.Graphs, c)
	}
	for _, n := range []int{2, 3, 10, 1000, 20_000} {
		for _, values := range []int{2, 10, 1 << 30} {
			var l [2][]float64
			for i := range n {
				a := rnd.IntN(values)
				b := a
				if rnd.IntN(3) > 0 {
					b = rnd.IntN(values)
				}
				if i < 2 { // not all equal
					a, b = i, 1-i
				}
				l[0], l[1] = append(l[0], float64(a)), append(l[1], float64(b))
			}
			in.Lists = append(in.Lists, l)
		}
	}
	b, err := json.Marshal(in)
	must.Do(t, err)
	cmd := exec.Command(python, "-c", scipyJudge)
	cmd.Stdin, cmd.Stderr = strings.NewReader(string(b)), os.Stderr
	b, err = cmd.Output()
	must.Do(t, err)
	var judged struct {
		Ranks [][]float64 `json:"ranks"`
		Taus  []float64   `json:"taus"`
	}
	must.Do(t, json.Unmarshal(b, &judged))
	for i, lists := range graphs {
		r, err := PageRank(memory(lists), RankConfig{Damping: in.Graphs[i].Damping, Tolerance: 1e-14, Iterations: 5000})
		must.Do(t, err)
		off := 0.0
		for v, x := range r.Of {
			off += math.Abs(x - judged.Ranks[i][v])
		}
		if off > 1e-12 {
			t.Errorf("PageRank of %d nodes with damping %v is off by %g", len(lists), in.Graphs[i].Damping, off)
		}
	}
	for i, l := range in.Lists {
		var pairs []Pair
		for k, a := range l[0] {
			pairs = append(pairs, Pair{a, l[1][k]})
		}
		c, err := Kendall(pairs)
		if err != nil || math.Abs(c.Tau()-judged.Taus[i]) > 1e-14 {
			t.Errorf("tau of %d nodes: got %v, SciPy says %v; %v", len(pairs), c.Tau(), judged.Taus[i], err)
		}
	}
}
