package cost

import "math"

// A regression is a least-squares fit of constants to measured values.
type regression struct {
	constants []float64
	// error is the standard deviation of a value from the fit. NaN: there are as many constants as values.
	error   float64
	t       float64     // quantile of Student's distribution; 0: too few values for a band
	inverse [][]float64 // of the matrix of the normal equations
}

// level is the confidence of a band.
const level = 0.95

// regress fits constants. Each row has what they are multiplied with for a value. ok is false if the rows cannot tell
// the constants apart.
func regress(rows [][]float64, values []float64) (r regression, ok bool) {
	if r.constants, r.inverse, ok = least(rows, values); !ok {
		return r, false
	}
	r.error = math.NaN()
	if free := len(rows) - len(r.constants); free > 0 {
		squares := 0.0
		for i, row := range rows {
			off := values[i] - dot(row, r.constants)
			squares += off * off
		}
		r.error = math.Sqrt(squares / float64(free))
		r.t = student(level, free)
	}
	return r, true
}

// half returns half the width of the confidence band at a row; ok is false if there were too few values for one. The
// variance of the estimate is that of a value, times the row times the inverse times the row.
func (r *regression) half(row []float64) (half float64, ok bool) {
	spread := 0.0
	for i := range row {
		spread += row[i] * dot(r.inverse[i], row)
	}
	return r.t * r.error * math.Sqrt(spread), r.t > 0
}

// least solves a least-squares problem with few unknowns, by the normal equations and Cholesky's decomposition. Each
// row has one value for each unknown. ok is false if the rows cannot tell the unknowns apart.
func least(rows [][]float64, y []float64) (x []float64, inverse [][]float64, ok bool) {
	n := len(rows[0])
	a, b := matrix(n), make([]float64, n)
	for k, row := range rows {
		for i := range n {
			b[i] += row[i] * y[k]
			for j := range n {
				a[i][j] += row[i] * row[j]
			}
		}
	}
	l := matrix(n)
	for i := range n {
		for j := range i + 1 {
			sum := a[i][j]
			for k := range j {
				sum -= l[i][k] * l[j][k]
			}
			if i > j {
				l[i][j] = sum / l[j][j]
				continue
			}
			// What is left of a column, after the others explain what they can. 1e-9 of its square is rounding.
			if sum <= 1e-9*a[i][i] {
				return nil, nil, false
			}
			l[i][i] = math.Sqrt(sum)
		}
	}
	inverse = matrix(n)
	for i := range n {
		unit := make([]float64, n)
		unit[i] = 1
		inverse[i] = substitute(l, unit)
	}
	return substitute(l, b), inverse, true
}

func matrix(n int) [][]float64 {
	m := make([][]float64, n)
	for i := range m {
		m[i] = make([]float64, n)
	}
	return m
}

// substitute solves LL'x = b. It overwrites b with x.
func substitute(l [][]float64, b []float64) []float64 {
	for i := range b {
		for j := range i {
			b[i] -= l[i][j] * b[j]
		}
		b[i] /= l[i][i]
	}
	for i := len(b) - 1; i >= 0; i-- {
		for j := i + 1; j < len(b); j++ {
			b[i] -= l[j][i] * b[j]
		}
		b[i] /= l[i][i]
	}
	return b
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// student returns the t for which a value with Student's distribution is within -t and t with this probability. It uses
// the series for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4).
func student(probability float64, freedom int) float64 {
	within := func(angle float64) float64 {
		sin, cos := math.Sincos(angle)
		sum, term := 0.0, 1.0
		if freedom%2 == 1 {
			term = cos
		}
		for k := freedom % 2; k < freedom-1; k += 2 {
			sum += term
			term *= cos * cos * float64(k+1) / float64(k+2)
		}
		if freedom%2 == 1 {
			return 2 / math.Pi * (angle + sin*sum)
		}
		return sin * sum
	}
	low, high := 0.0, math.Pi/2
	for range 60 {
		if mid := (low + high) / 2; within(mid) < probability {
			low = mid
		} else {
			high = mid
		}
	}
	return math.Tan(low) * math.Sqrt(float64(freedom))
}
