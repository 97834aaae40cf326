#include <cstdio>
#include <string>
#include <vector>

namespace geometry {
class Shape {
 public:
  explicit Shape(std::string name) : name_(name) {}
  virtual ~Shape() {}
  virtual double area() const = 0;
  const std::string &name() const { return name_; }

 protected:
  std::string name_;
};

class Square : public Shape {
 public:
  Square(double side) : Shape("square"), side_(side) {}
  double area() const override { return side_ * side_; }

 private:
  double side_;
};

template <typename T>
T largest(const std::vector<T> &values) {
  T best = values[0];
  for (const T &value : values) {
    if (value > best)
      best = value;
  }
  return best;
}

static int count;
enum class Color : unsigned char { red, green = 7 };
}  // namespace geometry

using geometry::Square;

static int overloaded(int x) { return x + 1; }
static double overloaded(double x) {
  return x + 1;
}

int main(int argc, char **) {
  Square square(argc);
  geometry::Color color = geometry::Color::green;
  std::vector<int> ints{1, 2, argc};
  std::vector<double> doubles{1.5, square.area()};
  auto scale = [&](int by) {
    geometry::count += by;
    return by * square.area();
  };
  double total = scale(2) + geometry::largest(ints) + geometry::largest(doubles);
  try {
    if (total > 1e9) throw 1;
  } catch (int code) {
    std::printf("caught %d\n", code);
  }
  int &reference = geometry::count;
  reference += overloaded(1) + (int)overloaded(2.0) + (int)color;
  std::printf("%s %f %d\n", square.name().c_str(), total, reference);
  return 0;
}
