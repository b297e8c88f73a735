using System.Buffers;
using System.Runtime.CompilerServices;

namespace Whimbrel.Buffers;

/// <summary>Pins of the pieces of <see cref="Pieces"/>, on the stack.</summary>
[InlineArray(Pieces.MostInRow)]
internal struct PinnedRow
{
    private MemoryHandle _first;
}
