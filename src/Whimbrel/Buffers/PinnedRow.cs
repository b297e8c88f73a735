using System.Buffers;
using System.Runtime.CompilerServices;

namespace Whimbrel.Buffers;

/// <summary>What keeps the pieces of <see cref="Pieces"/> in their place, on the stack.</summary>
[InlineArray(Pieces.MostInRow)]
internal struct PinnedRow
{
    private MemoryHandle _first;
}
