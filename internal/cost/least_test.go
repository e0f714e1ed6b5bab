package cost

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

func TestStudent(t *testing.T) {
	for _, freedom := range []int{1, 2, 3, 4, 5, 6, 7, 10, 11, 30, 101, 1000} {
		for _, p := range []float64{0.5, 0.9, 0.95, 0.99} {
			want := distuv.StudentsT{Sigma: 1, Nu: float64(freedom)}.Quantile((1 + p) / 2)
			near(t, "quantile", student(p, freedom), want, 1e-6)
		}
	}
}

// TestLeastIsThatOfALibrary compares random problems with gonum's QR decomposition.
func TestLeastIsThatOfALibrary(t *testing.T) {
	rng := testseed.Rand(t)
	for range 200 {
		n := 1 + rng.IntN(4)
		rows := make([][]float64, n+1+rng.IntN(30))
		x, y := mat.NewDense(len(rows), n, nil), mat.NewVecDense(len(rows), nil)
		for i := range rows {
			for range n {
				rows[i] = append(rows[i], math.Floor(20*rng.NormFloat64()))
			}
			x.SetRow(i, rows[i])
			y.SetVec(i, 100*rng.NormFloat64())
		}
		var qr mat.QR
		qr.Factorize(x)
		if qr.Cond() > 1e3 {
			continue
		}
		var want mat.VecDense
		must.Do(t, qr.SolveVecTo(&want, false, y))
		var inverse, square mat.Dense
		square.Mul(x.T(), x)
		must.Do(t, inverse.Inverse(&square))
		got, cov, ok := least(rows, y.RawVector().Data)
		if !ok {
			t.Fatalf("%v: not solved", rows)
		}
		for i := range n {
			if math.Abs(got[i]-want.AtVec(i)) > 1e-6*(1+math.Abs(want.AtVec(i))) {
				t.Errorf("unknown %d: got %g, want %g", i, got[i], want.AtVec(i))
			}
			for j := range n {
				if math.Abs(cov[i][j]-inverse.At(i, j)) > 1e-6 {
					t.Errorf("inverse at %d, %d: got %g, want %g", i, j, cov[i][j], inverse.At(i, j))
				}
			}
		}
	}
}
