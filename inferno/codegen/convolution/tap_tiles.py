"""How tiles of an image and of a gradient come to shared memory for sums over taps: by asynchronous copies, with zeros for what is outside."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inferno.codegen.builders.conditions import all_of, only_if
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.builder import Words, opaque, shared_pointer, store
from inferno.codegen.nvvm.global_memory import Elements
from inferno.mlir import arith, ir, nvvm, scf
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.convolution.tap_kernel import Side, TapKernel
from inferno.schedule.convolution.tap_region import Region
from inferno.schedule.convolution.tap_sums import TapSums

_FEWEST = 4  # bytes of an asynchronous copy
_AT_ONCE = 8  # copies of a thread that are spelled out


@dataclass(frozen=True)
class Tiles:
    """``channel`` is the block's first; ``image`` and ``gradient`` are what a tile has of them, the gradient behind the image."""

    k: TapKernel
    s: TapSums
    words: Words
    tensors: dict[int, Elements]
    thread: Integer
    channel: Integer
    image: Region
    gradient: Region
    keeps_places: bool

    def bring(self, number: Integer, target: Integer) -> None:
        """Start the copies of a tile."""
        k, s, words = self.k, self.s, self.words
        at = words.split(number, s.tiles(k))
        # Places of all pieces would be kept from tile to tile otherwise.
        thread = self.thread if self.keeps_places else opaque(words, self.thread, words.value(number))
        images, row, column = (words.mul(n, each) for n, each in zip(at, (s.images, s.rows * s.high, s.along * s.wide)))
        for region, access, of_image, begin in ((self.image, k.image, True, 0), (self.gradient, k.gradient, False, self.image.bytes)):
            strides = [side.image if of_image else side.gradient for side in (k.down, k.along)]
            offset = k.origin if of_image else access.offset
            self.copy(region, access, thread, [images, row, column], strides, offset, words.add(target, begin), of_image)

    def copy(
        self, region: Region, access: Access, thread: Integer, first: Sequence[Integer], strides: Sequence[int], origin: int, target: Integer, of_image: bool,
    ) -> None:
        """Start this thread's copies of a tile."""
        k, words, each = self.k, self.words, region.vector * region.run
        parts = [region.rows, region.columns, region.channels // each] if region.along_channels else [region.channels, region.rows, region.columns // each]
        for number in pieces(words, thread, self.s.threads, region.pieces, max(1, _AT_ONCE // region.run)):
            image, *rest = words.split(number, [region.images, *parts])
            if region.along_channels:
                row, column, channel = *rest[:2], words.mul(rest[2], each)
            else:
                channel, row, column = *rest[:2], words.mul(rest[2], each)
            which, own = words.add(first[0], image), words.add(self.channel, channel)
            conditions = [words.less(which, k.count)] if k.count % region.images else []
            if k.channels % region.channels:
                conditions.append(words.less(own, k.channels))
            offset = words.dot(words.split(which, [k.sizes[d] for d in k.images]), [access.strides[d] for d in k.images], origin)
            offset = words.add(offset, words.mul(own, k.step(access)))
            row_at = self.coordinate(k.down, first[1], row, 0, of_image)
            if not self.is_inside(k.down, self.s.rows * self.s.high, region.rows, 0, of_image):
                conditions.append(words.less(row_at, k.down.size if of_image else k.down.places))
            column_at = self.coordinate(k.along, first[2], column, region.lead, of_image)
            offset = words.add(offset, words.dot([row_at, column_at], strides))
            place = words.dot([image, row, column, channel], region.strides)
            copies, size = [], k.along.size if of_image else k.along.places
            for i in range(region.run):
                here = list(conditions)
                if not self.is_inside(k.along, self.s.along * self.s.wide, region.columns, region.lead, of_image):
                    here.append(words.less(words.add(column_at, i * region.vector), size))
                to = words.add(target, words.mul(words.add(place, i * region.vector), k.width))
                copies.append((words.add(offset, i * region.vector * strides[1]), to, here))
            self.start(access, copies, region.vector)

    def coordinate(self, side: Side, first: Integer, place: Integer, lead: int, of_image: bool) -> Integer:
        """Of an element of a tile, whose first place is ``first``; it wraps below zero."""
        words = self.words
        return words.add(words.mul(first, side.stride if of_image else 1), words.sub(place, lead + (side.low if of_image else 0)))

    def is_inside(self, side: Side, each: int, extent: int, lead: int, of_image: bool) -> bool:
        """Whether the tiles of so many places, and what is brought for them, are all inside of the tensor."""
        first = -lead - (side.low if of_image else 0)
        last = (-(-side.places // each) - 1) * each * (side.stride if of_image else 1) + first + extent - 1
        return first >= 0 and last < (side.size if of_image else side.places)

    def start(self, access: Access, copies: Sequence[tuple[Integer, Integer, list[ir.Value]]], count: int) -> None:
        """Start copies of so many neighbours, each from an offset to an address, or of zeros where a condition does not hold."""
        words, tensor, size = self.words, self.tensors[access.argument], count * self.k.width
        loaded = []
        for offset, target, conditions in copies:
            condition = all_of(*conditions)
            offset = offset if condition is None else words.select(condition, offset, 0)
            if size < _FEWEST:
                value = tensor.read(offset)
                value = value if condition is None else arith.select(condition, value, arith.constant(value.type, 0.0))
                loaded.append((value, target))
                continue
            modifier = ir.Attribute.parse(f"#nvvm<load_cache_modifier {'cg' if size == 16 else 'ca'}>")
            given = None if condition is None else words.select(condition, size, 0)
            nvvm.CpAsyncOp(shared_pointer(words, target), tensor.pointer(offset), size, modifier, cpSize=given)
        for value, target in loaded:
            store(value, shared_pointer(words, target), size)


def pieces(words: Words, thread: Integer, threads: int, count: int, most: int = _AT_ONCE) -> Iterator[Integer]:
    """The numbers of a thread's pieces of so many, each where the operations on it belong; ``most`` are spelled out, of more by a loop."""
    turns = count // threads
    looped = turns // most * most if turns > most else 0
    if looped:
        for_ = scf.ForOp(words.value(0), words.value(looped), words.value(most), [])
        with ir.InsertionPoint(for_.body):
            for i in range(most):
                yield words.add(thread, words.mul(words.add(for_.induction_variable, i), threads))
            scf.yield_([])
    for i in range(looped * threads, count, threads):
        number = words.add(thread, i)
        with only_if(words.less(number, count) if i + threads > count else None):
            yield number
