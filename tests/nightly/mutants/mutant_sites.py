"""Find the places of a Python file where a small change could go unnoticed (mutants).

Names, strings and types stay as they are: only operators, conditions, whole numbers, True and
False, defaults, returned values, break and continue change. Nothing changes in annotations,
imports, ``__all__``, type-checking blocks, or the texts of errors, warnings and log records.
"""

import ast
import itertools
import re

SWAPS = {  # by the name of the operator in ast
    "Add": ("+", "-"),
    "Sub": ("-", "+"),
    "Mult": ("*", "/"),
    "Div": ("/", "*"),
    "FloorDiv": ("//", "/"),
    "Mod": ("%", "//"),
    "Pow": ("**", "*"),
    "BitAnd": ("&", "|"),
    "BitOr": ("|", "&"),
    "And": ("and", "or"),
    "Or": ("or", "and"),
    "Lt": ("<", "<="),
    "LtE": ("<=", "<"),
    "Gt": (">", ">="),
    "GtE": (">=", ">"),
    "Eq": ("==", "!="),
    "NotEq": ("!=", "=="),
    "Is": ("is", "is not"),
    "IsNot": ("is not", "is"),
    "In": ("in", "not in"),
    "NotIn": ("not in", "in"),
}
OPPOSITES = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
# Before Python 3.12, ast misplaces what is inside an f-string.
SKIPPED = (ast.Import, ast.ImportFrom, ast.Raise, ast.JoinedStr)
SKIPPED_CALLS = re.compile(r"_?log(ger|ging)?\.|(.+\.)?_?warn$|TypeVar$|ParamSpec$|NewType$|cast$")
SKIPPED_BLOCKS = re.compile(r"TYPE_CHECKING|__name__ == ")


class Module(ast.NodeVisitor):
    """The mutants of a file, and what the choice of tests needs to know about it.

    ``imports`` has the names that it imports, by file; ``body_lines`` are those within functions;
    ``compiled_names`` are the names that its compiled functions use, or the constants beside them;
    ``lines_of`` has the lines where a name occurs.
    """

    def __init__(self, root, file):
        self.file, self.source = file, (root / file).read_bytes()
        self.starts = [0, *(it.end() for it in re.finditer(rb"\n", self.source))]
        self.scope, self.statement, self.in_function, self.in_kernel = [], (1, 1), False, False
        self.mutants, self.body_lines, self.kernels, self.imports = [], set(), [], {}
        self.lines_of = {}
        tree = ast.parse(self.source)
        for node in ast.walk(tree):
            name = getattr(node, "id", getattr(node, "attr", None))
            if name is not None:
                self.lines_of.setdefault(name, set()).add(node.lineno)
            if isinstance(node, ast.ImportFrom) and node.module:
                path = node.module.replace(".", "/")
                for name in node.names:
                    for it in (f"{path}.py", f"{path}/__init__.py", f"{path}/{name.name}.py"):
                        self.imports.setdefault(it, set()).add(name.name)
        self.visit(tree)
        constants = [it.value for it in tree.body if isinstance(it, (ast.Assign, ast.AnnAssign))]
        bodies = constants + [it for kernel in self.kernels for it in kernel.body]
        self.compiled_names = names_in(bodies) if self.kernels else set()

    def _span(self, node):
        start = self.starts[node.lineno - 1] + node.col_offset
        return start, self.starts[node.end_lineno - 1] + node.end_col_offset

    def _add(self, start, end, new):
        line = sum(it <= start for it in self.starts)
        text = self.source[self.starts[line - 1] :].partition(b"\n")[0].decode().strip()
        mutant = {
            "file": self.file,
            "line": line,
            "column": start - self.starts[line - 1] + 1,
            "where": ".".join(self.scope),
            "text": text,
            "original": self.source[start:end].decode(),
            "mutated": new,
            "start": start,
            "end": end,
            "first": self.statement[0],
            "last": self.statement[1],
            "in_function": self.in_function,
            "kernel": self.scope[-1] if self.in_kernel else None,
        }
        self.mutants.append(mutant)

    def _replace(self, node, template):
        start, end = self._span(node)
        self._add(start, end, template.format(self.source[start:end].decode()))

    def _swap(self, left, operator, right):
        old, new = SWAPS.get(type(operator).__name__, ("", ""))
        is_text = any(isinstance(getattr(it, "value", 0), str) for it in (left, right))
        is_types = isinstance(operator, ast.BitOr) and not self.in_function  # an alias: A | B
        if not old or is_types or (isinstance(operator, ast.operator) and is_text):
            return
        start, end = self._span(left)[1], self._span(right)[0]
        pattern = rb"#[^\n]*|" + re.escape(old.encode()).replace(rb"\ ", rb"\s+")
        for found in re.finditer(pattern, self.source[start:end]):
            if not found.group().startswith(b"#"):
                self._add(start + found.start(), start + found.end(), new)

    def _negate(self, test):
        # Another operator changes these conditions in the same way.
        pair = isinstance(test, ast.Compare) and len(test.ops) == 1
        if pair and isinstance(test.ops[0], OPPOSITES):
            return
        if not isinstance(test, ast.UnaryOp) or not isinstance(test.op, ast.Not):
            self._replace(test, "(not ({}))")

    def _constant(self, value, is_default):
        if isinstance(value.value, bool):
            self._replace(value, str(not value.value))
        elif isinstance(value.value, int):
            self._replace(value, str(value.value + 1))
        elif is_default and isinstance(value.value, float):
            self._replace(value, "({} + 1)")
        elif is_default and isinstance(value.value, str):
            self._replace(value, "({} + '_')")

    def visit(self, node):
        """Note the mutants of a node and of what it contains."""
        if isinstance(node, SKIPPED):
            return
        outer = self.statement
        if isinstance(node, ast.stmt):
            self.statement = header(node)
        super().visit(node)
        self.statement = outer

    def visit_FunctionDef(self, node):
        """Note what is in a function; its defaults belong to what is around it."""
        for it in node.decorator_list:
            self.visit(it)
        outer = self.in_function, self.in_kernel
        self.scope.append(node.name)
        for it in [*node.args.defaults, *node.args.kw_defaults]:
            self._constant(it, is_default=True) if isinstance(it, ast.Constant) else None
            self.visit(it) if it is not None and not isinstance(it, ast.Constant) else None
        if any(isinstance(it, ast.Name) and it.id == "kernel" for it in node.decorator_list):
            self.kernels.append(node)
            self.in_kernel = True
        self.in_function = True
        self.body_lines.update(range(node.body[0].lineno, node.end_lineno + 1))
        for it in node.body:
            self.visit(it)
        self.scope.pop()
        self.in_function, self.in_kernel = outer

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node):
        """Note what is in the body of a class, but not in its bases."""
        self.scope.append(node.name)
        for it in [*node.decorator_list, *node.body]:
            self.visit(it)
        self.scope.pop()

    def visit_AnnAssign(self, node):
        """Note what is in a value, but not in its type."""
        if node.value:
            self.visit(node.value)

    def visit_Assign(self, node):
        """Note what is in a value, unless it lists names for Python."""
        if ast.unparse(node.targets[0]) not in ("__all__", "__slots__"):
            self.generic_visit(node)

    def visit_Call(self, node):
        """Note what is in a call, unless it only writes a message or makes a type."""
        if not SKIPPED_CALLS.match(ast.unparse(node.func)):
            self.generic_visit(node)

    def visit_Subscript(self, node):
        """Note what is in an index, unless it is a type such as Literal[1]."""
        if ast.unparse(node.value) != "Literal":
            self.generic_visit(node)

    def visit_If(self, node):
        """Negate a condition."""
        if not SKIPPED_BLOCKS.match(ast.unparse(node.test)):
            self._negate(node.test)
            self.generic_visit(node)

    def visit_IfExp(self, node):
        """Negate the condition of a choice between two values."""
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node):
        """Negate the conditions of a comprehension."""
        for it in node.ifs:
            self._negate(it)
        self.generic_visit(node)

    def visit_Return(self, node):
        """Return None instead of a value."""
        if node.value and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._replace(node.value, "None")
        self.generic_visit(node)

    def visit_Break(self, node):
        """Go on with a loop."""
        self._replace(node, "continue")

    def visit_Continue(self, node):
        """End a loop."""
        self._replace(node, "break")

    def visit_BinOp(self, node):
        """Swap an operator of arithmetic."""
        self._swap(node.left, node.op, node.right)
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        """Swap an operator of arithmetic in place."""
        self._swap(node.target, node.op, node.value)
        self.generic_visit(node)

    def visit_Compare(self, node):
        """Swap each comparison of a chain."""
        parts = itertools.pairwise([node.left, *node.comparators])
        for (left, right), operator in zip(parts, node.ops, strict=True):
            self._swap(left, operator, right)
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        """Swap each "and" and "or"."""
        for left, right in itertools.pairwise(node.values):
            self._swap(left, node.op, right)
        self.generic_visit(node)

    def visit_UnaryOp(self, node):
        """Drop a "not" or a minus."""
        start, end = self._span(node)
        if isinstance(node.op, ast.Not):
            self._add(start, end, "(" + self.source[start + 3 : end].decode() + ")")
        elif isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            self._add(start, end, "(" + self.source[start + 1 : end].decode() + ")")
        self.generic_visit(node)

    def visit_Constant(self, node):
        """Change a whole number or a truth value."""
        self._constant(node, is_default=False)


def header(node):
    """Return the first and last line of a statement, without the block that it opens."""
    blocks = getattr(node, "body", None) or getattr(node, "cases", None)
    if not blocks:
        return node.lineno, node.end_lineno
    block = blocks[0].pattern if isinstance(blocks[0], ast.match_case) else blocks[0]
    return node.lineno, max(node.lineno, block.lineno - 1)


def names_in(nodes):
    """Return the names that occur in parts of a program."""
    found = (it for node in nodes if node for it in ast.walk(node))
    return {it.id for it in found if isinstance(it, ast.Name)}


def mutate(content, mutant):
    """Return the source with the mutation in it."""
    return content[: mutant["start"]] + mutant["mutated"].encode() + content[mutant["end"] :]
