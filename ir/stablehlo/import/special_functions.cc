#include "ir/stablehlo/import/special_functions.h"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <numbers>
#include <span>

namespace gshard::stablehlo {
namespace {

using Direction = ComparisonDirection;

// Writes formulas: constants are broadcast to the shape of the argument.
class Formula {
 public:
  Formula(Builder& builder, const Shape* shape) : b_(builder), shape_(shape->bare()) {}

  Instruction* C(double value) { return b_.Filled(shape_, b_.Scalar(shape_->dtype(), value)); }
  Instruction* Add(Instruction* a, Instruction* b) { return b_.Add(a, b); }
  Instruction* Add(Instruction* a, double b) { return b_.Add(a, C(b)); }
  Instruction* Sub(Instruction* a, Instruction* b) { return b_.Subtract(a, b); }
  Instruction* Sub(Instruction* a, double b) { return b_.Subtract(a, C(b)); }
  Instruction* Sub(double a, Instruction* b) { return b_.Subtract(C(a), b); }
  Instruction* Mul(Instruction* a, Instruction* b) { return b_.Multiply(a, b); }
  Instruction* Mul(Instruction* a, double b) { return b_.Multiply(a, C(b)); }
  Instruction* Div(Instruction* a, Instruction* b) { return b_.Binary(Opcode::kDivide, a, b); }
  Instruction* Div(Instruction* a, double b) { return Div(a, C(b)); }
  Instruction* Div(double a, Instruction* b) { return Div(C(a), b); }
  Instruction* Pow(Instruction* a, Instruction* b) { return b_.Binary(Opcode::kPower, a, b); }
  Instruction* Rem(Instruction* a, double b) { return b_.Binary(Opcode::kRemainder, a, C(b)); }
  Instruction* And(Instruction* a, Instruction* b) { return b_.And(a, b); }
  Instruction* Or(Instruction* a, Instruction* b) { return b_.Binary(Opcode::kOr, a, b); }
  Instruction* Compare(Direction direction, Instruction* a, Instruction* b) {
    return b_.Compare(direction, a, b);
  }
  Instruction* Compare(Direction direction, Instruction* a, double b) {
    return b_.Compare(direction, a, C(b));
  }
  Instruction* Select(Instruction* pred, Instruction* a, Instruction* b) {
    return b_.Select(pred, a, b);
  }
  Instruction* Select(Instruction* pred, double a, double b) { return Select(pred, C(a), C(b)); }
  Instruction* Plain(Opcode opcode, Instruction* x) { return b_.Add(opcode, {x}); }
  Instruction* Math(Opcode opcode, Instruction* x) {
    Instruction* const operands[] = {x};
    return b_.Add(opcode, operands, MathAttributes{});
  }
  Instruction* Abs(Instruction* x) { return Plain(Opcode::kAbs, x); }
  Instruction* Neg(Instruction* x) { return Plain(Opcode::kNegate, x); }
  Instruction* Floor(Instruction* x) { return Plain(Opcode::kFloor, x); }
  Instruction* Log(Instruction* x) { return Math(Opcode::kLog, x); }
  Instruction* Log1p(Instruction* x) { return Math(Opcode::kLogPlusOne, x); }
  Instruction* Exp(Instruction* x) { return Math(Opcode::kExponential, x); }
  Instruction* Sqrt(Instruction* x) { return Math(Opcode::kSqrt, x); }

  // Horner's rule, the highest coefficient first; the leading term is c0 * x + c1.
  Instruction* Polynomial(Instruction* x, std::span<const double> coefficients) {
    Instruction* sum = Add(Mul(x, coefficients[0]), coefficients[1]);
    for (const double c : coefficients.subspan(2)) sum = Add(Mul(sum, x), c);
    return sum;
  }
  // The same with 1 as its highest coefficient.
  Instruction* MonicPolynomial(Instruction* x, std::span<const double> coefficients) {
    Instruction* sum = Add(x, coefficients[0]);
    for (const double c : coefficients.subspan(1)) sum = Add(Mul(sum, x), c);
    return sum;
  }
  // Clenshaw's recurrence as Cephes has it (chbevl).
  Instruction* Chebyshev(Instruction* x, std::span<const double> coefficients) {
    Instruction* b0 = Add(Mul(x, 0.0), coefficients[0]);
    Instruction* b1 = b0;
    Instruction* b2 = nullptr;
    b0 = Add(Mul(x, b1), coefficients[1]);
    for (const double c : coefficients.subspan(2)) {
      b2 = b1;
      b1 = b0;
      b0 = Add(Sub(Mul(x, b1), b2), c);
    }
    return Mul(Sub(b0, b2), 0.5);
  }

 private:
  Builder& b_;
  const Shape* shape_;
};

bool IsDouble(const Instruction* x) { return x->shape()->dtype() == DType::kF64; }

// Applies `f` in f32 where the type is smaller.
template <typename F>
Instruction* InWideType(Builder& builder, Instruction* x, F&& f) {
  const DType dtype = x->shape()->dtype();
  if (dtype == DType::kF32 || dtype == DType::kF64) return f(x);
  return builder.Convert(f(builder.Convert(x, DType::kF32)), dtype);
}
template <typename F>
Instruction* InWideType(Builder& builder, Instruction* x, Instruction* y, F&& f) {
  const DType dtype = x->shape()->dtype();
  if (dtype == DType::kF32 || dtype == DType::kF64) return f(x, y);
  return builder.Convert(f(builder.Convert(x, DType::kF32), builder.Convert(y, DType::kF32)),
                         dtype);
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = std::numbers::pi;

// --- erf_inv

Instruction* ErfInv32(Builder& builder, Instruction* x) {
  constexpr double kCentral[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                 -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                 -0.00417768164,  0.246640727,    1.50140941};
  constexpr double kTail[] = {-0.000200214257, 0.000100950558, 0.00134934322,
                              -0.00367342844,  0.00573950773,  -0.0076224613,
                              0.00943887047,   1.00167406,     2.83297682};
  Formula m(builder, x->shape());
  Instruction* w = m.Neg(m.Log1p(m.Mul(x, m.Neg(x))));
  Instruction* central = m.Compare(Direction::kLt, w, 5.0);
  Instruction* t = m.Select(central, m.Sub(w, 2.5), m.Sub(m.Sqrt(w), 3.0));
  Instruction* p = m.Select(central, kCentral[0], kTail[0]);
  for (size_t i = 1; i < std::size(kTail); ++i) {
    p = m.Add(m.Select(central, kCentral[i], kTail[i]), m.Mul(p, t));
  }
  Instruction* at_one = m.Compare(Direction::kEq, m.Abs(x), 1.0);
  return m.Select(at_one, m.Mul(x, kInfinity), m.Mul(p, x));
}

Instruction* ErfInv64(Builder& builder, Instruction* x) {
  constexpr double kCentral[] = {
      -3.6444120640178196969e-21, -1.685059138182016589e-19,  1.2858480715256400167e-18,
      1.115787767802518096e-17,   -1.333171662854620906e-16,  2.0972767875968561637e-17,
      6.6376381343583238325e-15,  -4.0545662729752068639e-14, -8.1519341976054721522e-14,
      2.6335093153082322977e-12,  -1.2975133253453532498e-11, -5.4154120542946279317e-11,
      1.051212273321532285e-09,   -4.1126339803469836976e-09, -2.9070369957882005086e-08,
      4.2347877827932403518e-07,  -1.3654692000834678645e-06, -1.3882523362786468719e-05,
      0.0001867342080340571352,   -0.00074070253416626697512, -0.0060336708714301490533,
      0.24015818242558961693,     1.6536545626831027356};
  constexpr double kMiddle[] = {
      2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07,
      1.8239629214389227755e-08, 1.5027403968909827627e-06, -4.013867526981545969e-06,
      2.9234449089955446044e-06, 1.2475304481671778723e-05, -4.7318229009055733981e-05,
      6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796,
      0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066,
      -0.0037512085075692412107, 0.005370914553590063617,   1.0052589676941592334,
      3.0838856104922207635};
  constexpr double kTail[] = {
      -2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
      -3.7894654401267369937e-09, 7.6157012080783393804e-09,  -1.4960026627149240478e-08,
      2.9147953450901080826e-08,  -6.7711997758452339498e-08, 2.2900482228026654717e-07,
      -9.9298272942317002539e-07, 4.5260625972231537039e-06,  -1.9681778105531670567e-05,
      7.5995277030017761139e-05,  -0.00021503011930044477347, -0.00013871931833623122026,
      1.0103004648645343977,      4.8499064014085844221};
  Formula m(builder, x->shape());
  Instruction* w = m.Neg(m.Log1p(m.Mul(x, m.Neg(x))));
  Instruction* central = m.Compare(Direction::kLt, w, 6.25);
  Instruction* middle = m.Compare(Direction::kLt, w, 16.0);
  Instruction* t =
      m.Select(central, m.Sub(w, 3.125), m.Sub(m.Sqrt(w), m.Select(middle, 3.25, 5.0)));
  Instruction* p = nullptr;
  for (size_t i = 0; i < std::size(kCentral); ++i) {
    if (i < std::size(kTail)) {
      Instruction* c = m.Select(middle, m.Select(central, kCentral[i], kMiddle[i]), m.C(kTail[i]));
      p = p == nullptr ? c : m.Add(c, m.Mul(p, t));
    } else if (i < std::size(kMiddle)) {
      Instruction* c = m.Select(central, kCentral[i], kMiddle[i]);
      p = m.Select(middle, m.Add(c, m.Mul(p, t)), p);
    } else {
      p = m.Select(central, m.Add(m.Mul(p, t), kCentral[i]), p);
    }
  }
  Instruction* at_one = m.Compare(Direction::kEq, m.Abs(x), 1.0);
  return m.Select(at_one, m.Mul(x, kInfinity), m.Mul(p, x));
}

// --- erfc

Instruction* Erfc32(Builder& builder, Instruction* x) {
  constexpr double kNearZero[] = {7.85386146e-05, -0.000801019371, 0.00518832775, -0.0268538129,
                                  0.112835854,    -0.37612626,     1.12837911};
  constexpr double kBelowTwo[] = {0.0232682,    -0.138703942, 0.368742466,
                                  -0.582473278, 0.621000469,  -0.494451523,
                                  0.340488,     -0.274112701, 0.563825965};
  constexpr double kAboveTwo[] = {-10.477664,  12.9772,    -7.49551868,  2.92101908,
                                  -1.01526523, 0.42184633, -0.282076746, 0.564189494};
  Formula m(builder, x->shape());
  Instruction* square = m.Mul(x, x);
  Instruction* near = m.Sub(1.0, m.Mul(x, m.Polynomial(square, kNearZero)));
  Instruction* abs = m.Abs(x);
  Instruction* exponent = m.Neg(square);
  Instruction* inverse = m.Div(1.0, square);
  Instruction* p = m.Select(m.Compare(Direction::kLt, abs, 2.0), m.Polynomial(inverse, kBelowTwo),
                            m.Polynomial(inverse, kAboveTwo));
  Instruction* y = m.Mul(m.Mul(m.Exp(exponent), m.Div(1.0, abs)), p);
  y = m.Select(m.Compare(Direction::kLt, exponent, -88.7228394), m.C(0.0), y);
  Instruction* far = m.Select(m.Compare(Direction::kLt, x, 0.0), m.Sub(2.0, y), y);
  return m.Select(m.Compare(Direction::kLt, abs, 1.0), near, far);
}

Instruction* Erfc64(Builder& builder, Instruction* x) {
  constexpr double kErfT[] = {9.60497373987051638749E0, 9.00260197203842689217E1,
                              2.23200534594684319226E3, 7.00332514112805075473E3,
                              5.55923013010394962768E4};
  constexpr double kErfU[] = {3.35617141647503099647E1, 5.21357949780152679795E2,
                              4.59432382970980127987E3, 2.26290006138909340893E4,
                              4.92673942608635921086E4};
  constexpr double kP[] = {
      2.46196981473530512524E-10, 5.64189564831068821977E-1, 7.46321056442269912687E0,
      4.86371970985681366614E1,   1.96520832956077098242E2,  5.26445194995477358631E2,
      9.34528527171957607540E2,   1.02755188689515710272E3,  5.57535335369399327526E2};
  constexpr double kQ[] = {1.32281951154744992508E1, 8.67072140885989742329E1,
                           3.54937778887819891062E2, 9.75708501743205489753E2,
                           1.82390916687909736289E3, 2.24633760818710981792E3,
                           1.65666309194161350182E3, 5.57535340817727675546E2};
  constexpr double kR[] = {5.64189583547755073984E-1, 1.27536670759978104416E0,
                           5.01905042251180477414E0,  6.16021097993053585195E0,
                           7.40974269950448939160E0,  2.97886665372100240670E0};
  constexpr double kS[] = {2.26052863220117276590E0, 9.39603524938001434673E0,
                           1.20489539808096656605E1, 1.70814450747565897222E1,
                           9.60896809063285878198E0, 3.36907645100081516050E0};
  Formula m(builder, x->shape());
  Instruction* square = m.Mul(x, x);
  Instruction* near =
      m.Sub(1.0, m.Div(m.Mul(x, m.Polynomial(square, kErfT)), m.MonicPolynomial(square, kErfU)));
  Instruction* abs = m.Abs(x);
  Instruction* exponent = m.Neg(square);
  Instruction* e = m.Exp(exponent);
  Instruction* middle = m.Div(m.Mul(e, m.Polynomial(abs, kP)), m.MonicPolynomial(abs, kQ));
  Instruction* tail = m.Div(m.Mul(e, m.Polynomial(abs, kR)), m.MonicPolynomial(abs, kS));
  Instruction* y = m.Select(m.Compare(Direction::kLt, abs, 8.0), middle, tail);
  y = m.Select(m.Compare(Direction::kLt, exponent, -709.782712893384), m.C(0.0), y);
  Instruction* far = m.Select(m.Compare(Direction::kLt, x, 0.0), m.Sub(2.0, y), y);
  return m.Select(m.Compare(Direction::kLt, abs, 1.0), near, far);
}

// --- the gamma family

constexpr double kLanczosBase = 0.99999999999980993227684700473478;
constexpr double kLanczos[] = {
    676.520368121885098567009190444019, -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,   -176.61502916214059906584551354,
    12.507343278686904814458936853,     -0.13857109526572011689554707,
    9.984369578019570859563e-6,         1.50563273514931155834e-7};
constexpr double kG = 7;
const double kLogGPlusHalf = std::log(kG + 0.5);

// Below 1/2 functions are reflected: the argument of the series.
struct Reflected {
  Instruction* reflects;
  Instruction* z;
};
Reflected Reflect(Formula& m, Instruction* x) {
  Instruction* reflects = m.Compare(Direction::kLt, x, 0.5);
  return {reflects, m.Select(reflects, m.Neg(x), m.Sub(x, 1.0))};
}

Instruction* WideLgamma(Builder& builder, Instruction* x) {
  Formula m(builder, x->shape());
  const auto [reflects, z] = Reflect(m, x);
  Instruction* series = nullptr;
  for (size_t i = 0; i < std::size(kLanczos); ++i) {
    Instruction* term = m.Div(kLanczos[i], m.Add(z, static_cast<double>(i + 1)));
    series = series == nullptr ? m.Add(term, kLanczosBase) : m.Add(series, term);
  }
  // (z + 1/2) log(t) - t + log(sqrt(2 pi)) + log(series), t = z + g + 1/2.
  Instruction* t = m.Add(z, kG + 0.5);
  Instruction* log_t = m.Add(m.Log1p(m.Div(z, kG + 0.5)), kLogGPlusHalf);
  Instruction* direct =
      m.Add(m.Add(m.Mul(m.Sub(m.Add(z, 0.5), m.Div(t, log_t)), log_t), std::log(2 * kPi) / 2),
            m.Log(series));
  // log(pi / |sin(pi x)|) - direct, with the fraction of x nearer to zero.
  Instruction* abs = m.Abs(x);
  Instruction* fraction = m.Sub(abs, m.Floor(abs));
  fraction =
      m.Select(m.Compare(Direction::kLt, m.C(0.5), fraction), m.Sub(1.0, fraction), fraction);
  Instruction* sine = m.Log(m.Math(Opcode::kSine, m.Mul(fraction, kPi)));
  Instruction* reflected = m.Select(m.Plain(Opcode::kIsFinite, sine),
                                    m.Sub(m.Sub(std::log(kPi), sine), direct), m.Neg(sine));
  Instruction* y = m.Select(reflects, reflected, direct);
  return m.Select(m.Compare(Direction::kEq, abs, kInfinity), m.C(kInfinity), y);
}

Instruction* WideDigamma(Builder& builder, Instruction* x) {
  Formula m(builder, x->shape());
  const auto [reflects, z] = Reflect(m, x);
  Instruction* numerator = nullptr;
  Instruction* denominator = nullptr;
  for (size_t i = 0; i < std::size(kLanczos); ++i) {
    Instruction* at = m.Add(z, static_cast<double>(i + 1));
    Instruction* slope = m.Div(kLanczos[i], m.Mul(at, at));
    numerator = numerator == nullptr ? m.Sub(0.0, slope) : m.Sub(numerator, slope);
    Instruction* term = m.Div(kLanczos[i], at);
    denominator = denominator == nullptr ? m.Add(term, kLanczosBase) : m.Add(denominator, term);
  }
  Instruction* log_t = m.Add(m.Log1p(m.Div(z, kG + 0.5)), kLogGPlusHalf);
  Instruction* direct =
      m.Sub(m.Add(log_t, m.Div(numerator, denominator)), m.Div(kG, m.Add(z, kG + 0.5)));
  // digamma(1 - x) - pi / tan(pi x), on a reduced argument.
  Instruction* reduced = m.Mul(m.Add(x, m.Abs(m.Floor(m.Add(x, 0.5)))), kPi);
  Instruction* cotangent =
      m.Div(m.Mul(m.Math(Opcode::kCosine, reduced), kPi), m.Math(Opcode::kSine, reduced));
  Instruction* y = m.Select(reflects, m.Sub(direct, cotangent), direct);
  Instruction* pole =
      m.And(m.Compare(Direction::kLe, x, 0.0), m.Compare(Direction::kEq, x, m.Floor(x)));
  return m.Select(pole, m.C(kNaN), y);
}

// B(2k) / (2k)!, the last first.
constexpr double kBernoulli[] = {
    -1.3954464685812523340707686264063549763E-19, 5.5090028283602295152026526089022548253E-18,
    -2.1748686985580618730415164238659178998E-16, 8.586062056277844564135905450425627131E-15,
    -3.3896802963225828668301953912494410730E-13, 1.3382536530684678832826980975129123277E-11,
    -5.2841901386874931848476822021795566767E-10, 2.0876756987868098979210090321201432312E-8,
    -8.2671957671957671957671957671957671957E-7,  3.3068783068783068783068783068783068783E-5,
    -1.3888888888888888888888888888888888888E-3,  8.3333333333333333333333333333333333333E-2};

Instruction* WideZeta(Builder& builder, Instruction* x, Instruction* q) {
  Formula m(builder, x->shape());
  Instruction* power = m.Neg(x);
  Instruction* a = q;
  Instruction* sum = m.Pow(q, power);
  for (int i = 0; i < 9; ++i) {
    a = m.Add(a, 1.0);
    sum = m.Add(sum, m.Pow(a, power));
  }
  a = m.Add(a, 1.0);
  Instruction* last = m.Pow(a, power);
  Instruction* s = m.Add(sum, m.Div(m.Mul(last, a), m.Sub(x, 1.0)));
  Instruction* inverse = m.Div(1.0, m.Mul(a, a));
  Instruction* tail = nullptr;
  for (int i = 0; i < 11; ++i) {
    const double k = 22.0 - 2 * i;
    Instruction* factor = m.Mul(m.Add(x, k), m.Add(x, k - 1));
    Instruction* inner = tail == nullptr ? m.Mul(inverse, kBernoulli[0]) : m.Mul(inverse, tail);
    tail = m.Add(m.Mul(factor, inner), kBernoulli[i + 1]);
  }
  tail = m.Add(m.Mul(m.Div(x, a), tail), 0.5);
  s = m.Add(s, m.Mul(last, tail));
  const double tiny = IsDouble(x) ? std::numeric_limits<double>::denorm_min()
                                  : std::numeric_limits<float>::denorm_min();
  Instruction* converged = m.Compare(Direction::kLt, m.Abs(last), m.Mul(m.Abs(sum), tiny));
  Instruction* y = m.Select(converged, sum, s);
  y = m.Select(m.Compare(Direction::kLt, x, 1.0), m.C(kNaN), y);
  Instruction* below = m.Compare(Direction::kLe, q, 0.0);
  y = m.Select(m.And(below, m.Compare(Direction::kNe, x, m.Floor(x))), m.C(kNaN), y);
  // At zero and the negative integers even powers have a pole, odd ones no limit.
  Instruction* even = m.And(m.Compare(Direction::kEq, x, m.Floor(x)),
                            m.Compare(Direction::kEq, m.Rem(x, 2.0), 0.0));
  Instruction* pole = m.And(below, m.Compare(Direction::kEq, q, m.Floor(q)));
  y = m.Select(pole, m.Select(even, kInfinity, kNaN), y);
  return m.Select(m.Compare(Direction::kEq, x, 1.0), m.C(kInfinity), y);
}

Instruction* WidePolygamma(Builder& builder, Instruction* n, Instruction* x) {
  Formula m(builder, x->shape());
  Instruction* n1 = m.Add(n, 1.0);
  Instruction* sign = m.Sub(m.Mul(m.Rem(n, 2.0), 2.0), 1.0);
  Instruction* factorial = m.Exp(WideLgamma(builder, n1));
  Instruction* y = m.Mul(m.Mul(sign, factorial), WideZeta(builder, n1, x));
  y = m.Select(m.Compare(Direction::kEq, n, 0.0), WideDigamma(builder, x), y);
  Instruction* undefined =
      m.Or(m.Compare(Direction::kNe, n, m.Floor(n)), m.Compare(Direction::kLt, n, 0.0));
  return m.Select(undefined, m.C(kNaN), y);
}

// --- bessel_i1e

constexpr double kBesselA32[] = {
    9.38153738649577178388E-9,  -4.44505912879632808065E-8, 2.00329475355213526229E-7,
    -8.56872026469545474066E-7, 3.47025130813767847674E-6,  -1.32731636560394358279E-5,
    4.78156510755005422638E-5,  -1.61760815825896745588E-4, 5.12285956168575772895E-4,
    -1.51357245063125314899E-3, 4.15642294431288815669E-3,  -1.05640848946261981558E-2,
    2.47264490306265168283E-2,  -5.29459812080949914269E-2, 1.02643658689847095384E-1,
    -1.76416518357834055153E-1, 2.52587186443633654823E-1};
constexpr double kBesselB32[] = {-3.83538038596423702205E-9, -2.63146884688951950684E-8,
                                 -2.51223623787020892529E-7, -3.88256480887769039346E-6,
                                 -1.10588938762623716291E-4, -9.76109749136146840777E-3,
                                 7.78576235018280120474E-1};
constexpr double kBesselA64[] = {
    2.77791411276104639959E-18,  -2.11142121435816608115E-17, 1.55363195773620046921E-16,
    -1.10559694773538630805E-15, 7.60068429473540693410E-15,  -5.04218550472791168711E-14,
    3.22379336594557470981E-13,  -1.98397439776494371520E-12, 1.17361862988909016308E-11,
    -6.66348972350202774223E-11, 3.62559028155211703701E-10,  -1.88724975172282928790E-9,
    9.38153738649577178388E-9,   -4.44505912879632808065E-8,  2.00329475355213526229E-7,
    -8.56872026469545474066E-7,  3.47025130813767847674E-6,   -1.32731636560394358279E-5,
    4.78156510755005422638E-5,   -1.61760815825896745588E-4,  5.12285956168575772895E-4,
    -1.51357245063125314899E-3,  4.15642294431288815669E-3,   -1.05640848946261981558E-2,
    2.47264490306265168283E-2,   -5.29459812080949914269E-2,  1.02643658689847095384E-1,
    -1.76416518357834055153E-1,  2.52587186443633654823E-1};
constexpr double kBesselB64[] = {
    7.51729631084210481353E-18,  4.41434832307170791151E-18,  -4.65030536848935832153E-17,
    -3.20952592199342395980E-17, 2.96262899764595013876E-16,  3.30820231092092828324E-16,
    -1.88035477551078244854E-15, -3.81440307243700780478E-15, 1.04202769841288027642E-14,
    4.27244001671195135429E-14,  -2.10154184277266431302E-14, -4.08355111109219731823E-13,
    -7.19855177624590851209E-13, 2.03562854414708950722E-12,  1.41258074366137813316E-11,
    3.25260358301548823856E-11,  -1.89749581235054123450E-11, -5.58974346219658380687E-10,
    -3.83538038596423702205E-9,  -2.63146884688951950684E-8,  -2.51223623787020892529E-7,
    -3.88256480887769039346E-6,  -1.10588938762623716291E-4,  -9.76109749136146840777E-3,
    7.78576235018280120474E-1};

}  // namespace

Instruction* ErfInv(Builder& builder, Instruction* x) {
  return InWideType(builder, x, [&](Instruction* wide) {
    return IsDouble(wide) ? ErfInv64(builder, wide) : ErfInv32(builder, wide);
  });
}

Instruction* Erfc(Builder& builder, Instruction* x) {
  return InWideType(builder, x, [&](Instruction* wide) {
    return IsDouble(wide) ? Erfc64(builder, wide) : Erfc32(builder, wide);
  });
}

Instruction* Lgamma(Builder& builder, Instruction* x) {
  return InWideType(builder, x, [&](Instruction* wide) { return WideLgamma(builder, wide); });
}

Instruction* Digamma(Builder& builder, Instruction* x) {
  return InWideType(builder, x, [&](Instruction* wide) { return WideDigamma(builder, wide); });
}

Instruction* Zeta(Builder& builder, Instruction* x, Instruction* q) {
  return InWideType(builder, x, q, [&](Instruction* wide_x, Instruction* wide_q) {
    return WideZeta(builder, wide_x, wide_q);
  });
}

Instruction* Polygamma(Builder& builder, Instruction* n, Instruction* x) {
  return InWideType(builder, n, x, [&](Instruction* wide_n, Instruction* wide_x) {
    return WidePolygamma(builder, wide_n, wide_x);
  });
}

Instruction* BesselI1e(Builder& builder, Instruction* x) {
  return InWideType(builder, x, [&](Instruction* wide) {
    Formula m(builder, wide->shape());
    const bool is_double = IsDouble(wide);
    const std::span<const double> a =
        is_double ? std::span<const double>(kBesselA64) : std::span<const double>(kBesselA32);
    const std::span<const double> b =
        is_double ? std::span<const double>(kBesselB64) : std::span<const double>(kBesselB32);
    Instruction* abs = m.Abs(wide);
    Instruction* small = m.Mul(abs, m.Chebyshev(m.Sub(m.Mul(abs, 0.5), 2.0), a));
    Instruction* large = m.Div(m.Chebyshev(m.Sub(m.Div(32.0, abs), 2.0), b), m.Sqrt(abs));
    Instruction* y = m.Select(m.Compare(Direction::kLe, abs, 8.0), small, large);
    return m.Mul(m.Plain(Opcode::kSign, wide), y);
  });
}

Instruction* NextAfter(Builder& builder, Instruction* x, Instruction* y) {
  const DType dtype = x->shape()->dtype();
  const int width = DTypeBits(dtype);
  const DType bits = width == 64   ? DType::kS64
                     : width == 32 ? DType::kS32
                     : width == 16 ? DType::kS16
                                   : DType::kS8;
  const Shape* shape = x->shape()->bare();
  const Shape* bits_shape = builder.context().WithDType(shape, bits);
  const auto constant = [&](int64_t value) {
    return builder.Filled(bits_shape, builder.ScalarInt(bits, value));
  };
  const auto as_bits = [&](Instruction* value) {
    return builder.Add(Opcode::kBitcastConvert, {value}, bits_shape);
  };
  const int64_t sign_bit = INT64_MIN >> (64 - width);
  Instruction* xb = as_bits(x);
  Instruction* yb = as_bits(y);
  Instruction* magnitude = constant(~sign_bit);
  Instruction* sign = constant(sign_bit);
  Instruction* x_abs = builder.And(xb, magnitude);
  Instruction* y_abs = builder.And(yb, magnitude);
  Instruction* x_sign = builder.And(xb, sign);
  Instruction* y_sign = builder.And(yb, sign);
  Instruction* zero = constant(0);
  Instruction* from_zero = builder.Select(builder.Compare(Direction::kEq, y_abs, zero), yb,
                                          builder.Binary(Opcode::kOr, y_sign, constant(1)));
  Instruction* shrinks = builder.Binary(Opcode::kOr, builder.Compare(Direction::kGt, x_abs, y_abs),
                                        builder.Compare(Direction::kNe, x_sign, y_sign));
  Instruction* step = builder.Select(shrinks, constant(-1), constant(1));
  Instruction* next = builder.Select(builder.Compare(Direction::kEq, x_abs, zero), from_zero,
                                     builder.Add(xb, step));
  next = builder.Select(builder.Compare(Direction::kEq, x, y), yb, next);
  Instruction* nan = builder.Filled(shape, builder.Scalar(dtype, kNaN));
  Instruction* undefined = builder.Binary(Opcode::kOr, builder.Compare(Direction::kNe, x, x),
                                          builder.Compare(Direction::kNe, y, y));
  next = builder.Select(undefined, as_bits(nan), next);
  return builder.Add(Opcode::kBitcastConvert, {next}, shape);
}

}  // namespace gshard::stablehlo
