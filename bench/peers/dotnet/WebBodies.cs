using System.Security.Cryptography;

namespace Whimbrel.Bench.Peers;

/// <summary> Response bodies of the web servers: bytes of the load program's table, which repeats with a prime period.
/// It is the file <c>table</c> of the served folder. </summary>
internal sealed class WebBodies(string folder)
{
    public const int LargestBytes = 16 * 1024;
    public const int PieceBytes = 64 * 1024;

    private static readonly byte[] _key = new byte[16];
    private static readonly byte[] _start = new byte[16];

    private readonly byte[] _table = File.ReadAllBytes(Path.Combine(folder, "table"));
    private readonly Lazy<Aes> _cipher = new(static () =>
    {
        var aes = Aes.Create();
        aes.Key = _key;
        return aes;
    });

    /// <summary>Sizes with a route of their own.</summary>
    public static ReadOnlySpan<int> Sizes => [128, 1024, LargestBytes];

    public byte[] Of(int size) => _table[..size];

    /// <summary>Plaintext that encrypts to these bytes of the table, so that the load program can check them.</summary>
    public byte[] PlainOf(int size) => _cipher.Value.DecryptCbc(Of(size), _start, PaddingMode.None);

    public int Encrypt(byte[] plain, Span<byte> to) => _cipher.Value.EncryptCbc(plain, _start, to, PaddingMode.None);

    /// <summary>Piece of a long body at an offset.</summary>
    public ReadOnlyMemory<byte> PieceAt(long at, long end)
    {
        var offset = (int)(at % _table.Length);
        return _table.AsMemory(offset, (int)Math.Min(Math.Min(PieceBytes, _table.Length - offset), end - at));
    }
}
