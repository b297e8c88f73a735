using System.Runtime.CompilerServices;

namespace Whimbrel.Buffers;

/// <summary>The pieces of <see cref="Pieces"/>, on the stack.</summary>
[InlineArray(Pieces.MostInRow)]
internal struct MemoryRow
{
    private ReadOnlyMemory<byte> _first;
}
