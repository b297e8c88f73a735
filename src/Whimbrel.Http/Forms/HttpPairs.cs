using System.Text;

namespace Whimbrel.Http;

/// <summary>
/// Names and values in the format <c>application/x-www-form-urlencoded</c>: a query (<see cref="HttpRequest.Query"/>)
/// or a form (<see cref="HttpRequest.Form"/>). They are parsed in place, so only the requested strings are allocated.
/// Pairs of a request are valid until the response.
/// </summary>
public readonly struct HttpPairs
{
    private const int SmallName = 128;

    private readonly HttpRequest _request;
    private readonly bool _isRequests; // stored in the request's memory
    private readonly ReadOnlyMemory<byte> _own;
    private readonly bool _isForm;

    internal HttpPairs(HttpRequest request, bool isForm)
    {
        _request = request;
        _isRequests = true;
        _isForm = isForm;
    }

    internal HttpPairs(ReadOnlyMemory<byte> own) => _own = own;

    /// <summary>All bytes as received, percent-encoded and with plus signs.</summary>
    public ReadOnlySpan<byte> Bytes => !_isRequests ? _own.Span : _isForm ? _request.BodyBytes : _request.QueryBytes;

    /// <summary>Whether there are no bytes.</summary>
    public bool IsEmpty => Bytes.IsEmpty;

    /// <summary>First decoded value with this name, or null. A percent sign without two hexadecimal digits stands for
    /// itself, as in browsers.</summary>
    /// <param name="name">Decoded name. Case-sensitive.</param>
    public string? this[string name]
    {
        get
        {
            ArgumentNullException.ThrowIfNull(name);
            using HttpRequest.RequestUse use = Enter();
            int most = Encoding.UTF8.GetMaxByteCount(name.Length);
            Span<byte> bytes = most <= SmallName ? stackalloc byte[SmallName] : new byte[most];
            return TryGet(bytes[..Encoding.UTF8.GetBytes(name, bytes)], out ReadOnlySpan<byte> value)
                ? HttpText.DecodePlus(value)
                : null;
        }
    }

    /// <summary>Gets the first value with this name, as received. Does not allocate.</summary>
    /// <param name="name">Decoded name in UTF-8. Case-sensitive.</param>
    /// <param name="value">Value, percent-encoded and with plus signs.</param>
    public bool TryGet(ReadOnlySpan<byte> name, out ReadOnlySpan<byte> value)
    {
        foreach (HttpPair pair in this)
        {
            if (!HttpText.IsPlus(pair.Name, name)) continue;
            value = pair.Value;
            return true;
        }

        value = default;
        return false;
    }

    /// <summary>Enumerates all pairs in their order; names may repeat.</summary>
    public Enumerator GetEnumerator() => new(Bytes);

    /// <summary>Returns the bytes, as received.</summary>
    /// <param name="pairs">The pairs.</param>
    public static implicit operator ReadOnlySpan<byte>(HttpPairs pairs) => pairs.Bytes;

    /// <summary>Returns the text, as received.</summary>
    public override string ToString()
    {
        using HttpRequest.RequestUse use = Enter();
        return Encoding.UTF8.GetString(Bytes);
    }

    private HttpRequest.RequestUse Enter() => _isRequests ? _request.Enter() : default;

    /// <summary>Enumerator of pairs.</summary>
    public ref struct Enumerator
    {
        private ReadOnlySpan<byte> _rest;

        internal Enumerator(ReadOnlySpan<byte> pairs) => _rest = pairs;

        /// <summary>Current pair.</summary>
        public HttpPair Current { get; private set; }

        /// <summary>Moves to the next pair. Returns false at the end.</summary>
        public bool MoveNext()
        {
            while (!_rest.IsEmpty)
            {
                int end = _rest.IndexOf((byte)'&');
                ReadOnlySpan<byte> pair = end < 0 ? _rest : _rest[..end];
                _rest = end < 0 ? default : _rest[(end + 1)..];
                if (pair.IsEmpty) continue;
                int equals = pair.IndexOf((byte)'=');
                Current = equals < 0 ? new HttpPair(pair, default) : new HttpPair(pair[..equals], pair[(equals + 1)..]);
                return true;
            }

            return false;
        }
    }
}

/// <summary>Name and value.</summary>
public readonly ref struct HttpPair
{
    internal HttpPair(ReadOnlySpan<byte> name, ReadOnlySpan<byte> value)
    {
        Name = name;
        Value = value;
    }

    /// <summary>Name, as received.</summary>
    public ReadOnlySpan<byte> Name { get; }

    /// <summary>Value, as received; empty without an equals sign.</summary>
    public ReadOnlySpan<byte> Value { get; }

    /// <summary>Decoded name.</summary>
    public string NameText => HttpText.DecodePlus(Name);

    /// <summary>Decoded value.</summary>
    public string ValueText => HttpText.DecodePlus(Value);
}
