"""How tiles of an image and of a gradient come to shared memory for sums over taps: by asynchronous copies, with zeros for what is outside."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from inferno.codegen.global_memory import Elements
from inferno.codegen.integers import Integer
from inferno.codegen.nvvm_builder import Words, only_if, shared_pointer, store
from inferno.mlir import arith, ir, nvvm, scf
from inferno.schedule.accesses import Access
from inferno.schedule.tap_kernel import TapKernel
from inferno.schedule.tap_sums import Region, TapSums

_FEWEST = 4  # bytes of an asynchronous copy
_AT_ONCE = 8  # pieces of a thread that are spelled out


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

    def bring(self, number: Integer, target: Integer) -> None:
        """Start the copies of a tile."""
        k, s, words = self.k, self.s, self.words
        at = words.split(number, s.tiles(k))
        images, row, column = (words.mul(n, each) for n, each in zip(at, (s.images, s.rows * s.high, s.along * s.wide)))
        for region, access, of_image, begin in ((self.image, k.image, True, 0), (self.gradient, k.gradient, False, self.image.bytes)):
            strides = [side.image if of_image else side.gradient for side in (k.down, k.along)]
            offset = k.origin if of_image else access.offset
            self.copy(region, access, [images, row, column], strides, offset, words.add(target, begin), of_image)

    def copy(
        self, region: Region, access: Access, first: Sequence[Integer], strides: Sequence[int], origin: int, target: Integer, of_image: bool,
    ) -> None:
        """Start this thread's copies of a tile."""
        k, words = self.k, self.words
        inner = [region.columns, region.channels // region.vector] if region.along_channels else [region.channels, region.columns // region.vector]
        sizes = [region.images, region.rows, *inner]

        def one(number: Integer) -> None:
            image, row, *rest = words.split(number, sizes)
            column, channel = rest if region.along_channels else rest[::-1]
            if region.along_channels:
                channel = words.mul(channel, region.vector)
            else:
                column = words.mul(column, region.vector)
            conditions, offset = [], origin
            which = words.add(first[0], image)
            if k.count % region.images:
                conditions.append(words.less(which, k.count))
            numbers = words.split(which, [k.sizes[d] for d in k.images])
            offset = words.add(words.dot(numbers, [access.strides[d] for d in k.images]), offset)
            for side, begin, place, lead, stride in zip((k.down, k.along), first[1:], (row, column), (0, region.lead), strides):
                where = words.add(words.mul(begin, side.stride if of_image else 1), words.sub(place, lead + (side.low if of_image else 0)))
                conditions.append(words.less(where, side.size if of_image else side.places))
                offset = words.add(offset, words.mul(where, stride))
            own = words.add(self.channel, channel)
            if k.channels % region.channels:
                conditions.append(words.less(own, k.channels))
            offset = words.add(offset, words.mul(own, k.step(access)))
            place = words.dot([image, row, column, channel], [region.rows * region.columns * region.channels, region.columns * region.channels,
                                                             region.channels, 1])
            self.start(access, offset, words.add(target, words.mul(place, k.width)), conditions, region.vector)

        for number in pieces(words, self.thread, self.s.threads, region.copies):
            one(number)

    def start(self, access: Access, offset: Integer, target: Integer, conditions: Sequence[ir.Value], vector_: int) -> None:
        """Start a copy of neighbours, or of zeros where a condition does not hold."""
        words, tensor, size = self.words, self.tensors[access.argument], vector_ * self.k.width
        condition = conditions[0]
        for more in conditions[1:]:
            condition = arith.andi(condition, more)
        offset = words.select(condition, offset, 0)
        if size < _FEWEST:
            value = tensor.read(offset)
            store(arith.select(condition, value, arith.constant(value.type, 0.0)), shared_pointer(words, target), size)
            return
        modifier = ir.Attribute.parse(f"#nvvm<load_cache_modifier {'cg' if size == 16 else 'ca'}>")
        nvvm.CpAsyncOp(shared_pointer(words, target), tensor.pointer(offset), size, modifier, cpSize=words.select(condition, size, 0))


def pieces(words: Words, thread: Integer, threads: int, count: int) -> Iterator[Integer]:
    """The numbers of a thread's pieces of so many, each where the operations on it belong."""
    turns = count // threads
    looped = turns // _AT_ONCE * _AT_ONCE if turns > _AT_ONCE else 0
    if looped:
        for_ = scf.ForOp(words.value(0), words.value(looped), words.value(_AT_ONCE), [])
        with ir.InsertionPoint(for_.body):
            for i in range(_AT_ONCE):
                yield words.add(thread, words.mul(words.add(for_.induction_variable, i), threads))
            scf.yield_([])
    for i in range(looped * threads, count, threads):
        number = words.add(thread, i)
        with only_if(words.less(number, count)) if i + threads > count else nullcontext():
            yield number
