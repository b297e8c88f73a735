using System.Text;

namespace Whimbrel.Http;

/// <summary>
/// Names and values as <c>application/x-www-form-urlencoded</c> has them: a query (<see cref="HttpRequest.Query"/>) or a form
/// (<see cref="HttpRequest.Form"/>). They are looked up where they lie, so nothing is allocated but the strings that are asked for. Of a
/// request it is valid until that is answered.
/// </summary>
public readonly struct HttpPairs
{
    private const int SmallName = 128;

    private readonly HttpRequest _request;
    private readonly bool _isRequests; // it lies in the request's memory
    private readonly ReadOnlyMemory<byte> _own;
    private readonly bool _isForm;

    internal HttpPairs(HttpRequest request, bool isForm)
    {
        _request = request;
        _isRequests = true;
        _isForm = isForm;
    }

    internal HttpPairs(ReadOnlyMemory<byte> own) => _own = own;

    /// <summary>All of it, as it was sent: with percent signs and plus signs.</summary>
    public ReadOnlySpan<byte> Bytes => !_isRequests ? _own.Span : _isForm ? _request.BodyBytes : _request.QueryBytes;

    /// <summary>Whether there is none.</summary>
    public bool IsEmpty => Bytes.IsEmpty;

    /// <summary>The first value with this name as text, or null. A percent sign without two hexadecimal digits stands for itself, as in browsers.</summary>
    /// <param name="name">As it is meant, not as it is sent. Case counts.</param>
    public string? this[string name]
    {
        get
        {
            ArgumentNullException.ThrowIfNull(name);
            using HttpRequest.RequestUse use = Enter();
            int most = Encoding.UTF8.GetMaxByteCount(name.Length);
            Span<byte> bytes = most <= SmallName ? stackalloc byte[SmallName] : new byte[most];
            return TryGet(bytes[..Encoding.UTF8.GetBytes(name, bytes)], out ReadOnlySpan<byte> value) ? HttpText.DecodePlus(value) : null;
        }
    }

    /// <summary>The first value with this name, as it was sent. Allocates nothing.</summary>
    /// <param name="name">In UTF-8, as it is meant. Case counts.</param>
    /// <param name="value">With percent signs and plus signs.</param>
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

    /// <summary>Goes through all of them in their order; names may come twice.</summary>
    public Enumerator GetEnumerator() => new(Bytes);

    /// <summary>The bytes, as they were sent.</summary>
    /// <param name="pairs">The pairs.</param>
    public static implicit operator ReadOnlySpan<byte>(HttpPairs pairs) => pairs.Bytes;

    /// <summary>The text, as it was sent.</summary>
    public override string ToString()
    {
        using HttpRequest.RequestUse use = Enter();
        return Encoding.UTF8.GetString(Bytes);
    }

    private HttpRequest.RequestUse Enter() => _isRequests ? _request.Enter() : default;

    /// <summary>Goes through pairs.</summary>
    public ref struct Enumerator
    {
        private ReadOnlySpan<byte> _rest;

        internal Enumerator(ReadOnlySpan<byte> pairs) => _rest = pairs;

        /// <summary>The pair it stands at.</summary>
        public HttpPair Current { get; private set; }

        /// <summary>Goes on to the next. False: there is none.</summary>
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

/// <summary>A name and its value.</summary>
public readonly ref struct HttpPair
{
    internal HttpPair(ReadOnlySpan<byte> name, ReadOnlySpan<byte> value)
    {
        Name = name;
        Value = value;
    }

    /// <summary>The name, as it was sent.</summary>
    public ReadOnlySpan<byte> Name { get; }

    /// <summary>The value, as it was sent; empty without an equals sign.</summary>
    public ReadOnlySpan<byte> Value { get; }

    /// <summary>The name as it is meant.</summary>
    public string NameText => HttpText.DecodePlus(Name);

    /// <summary>The value as it is meant.</summary>
    public string ValueText => HttpText.DecodePlus(Value);
}
