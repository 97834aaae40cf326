// C++ for expressions: references, base classes, namespaces.
namespace geometry {
struct Point {
  int x, y;
};
struct Named {
  long name;
};
struct Square : Named, Point {
  int side;
  Point &corner;
};
int scale = 3;
int area(const Square &square, Point &&moved, int *const &pointer) {
  return square.side * scale + moved.x + *pointer; // here
}
}  // namespace geometry

int main() {
  geometry::Point corner{1, 2};
  geometry::Square square{{5}, {3, 4}, 7, corner};
  int value = 9;
  int *pointer = &value;
  return geometry::area(square, geometry::Point{8, 9}, pointer);
}
