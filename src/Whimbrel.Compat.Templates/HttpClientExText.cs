namespace Whimbrel.Compat.Templates;

/// <summary>Http*ClientEx</summary>
internal static class HttpClientExText
{
    internal static string Text(Variant v) => $$"""
        using System.Net;
        using Whimbrel.Compat;

        namespace NetCoreServer;

        /// <summary>
        /// A client of HTTP/1.1{{v.Over}} whose requests are awaited, one at a time. It connects itself. A response stays with who awaits it; the task fails when
        /// the response breaks a rule, the connection ends before it, or the timeout passes (<see cref="OneRequest"/>).
        /// </summary>
        public class Http{{v.S}}ClientEx : Http{{v.S}}Client, IOneRequest
        {
            private readonly OneRequest _one;

        {{Members.Constructors(v, $"Http{v.S}ClientEx", " => _one = new OneRequest(this);")}}
            HttpAsking IOneRequest.Http => Asking;

            bool IOneRequest.IsReady => Is{{v.Ready}};

            bool IOneRequest.IsBusy => IsConnected || IsConnecting;

            string IOneRequest.Failure => Failure;

            /// <summary>Sends <see cref="HttpClient.Request"/>, and gives its response.</summary>
            /// <param name="timeout">Null for a minute.</param>
            public Task<HttpResponse> SendRequest(TimeSpan? timeout = null) => SendRequest(Request, timeout);

            /// <summary>Sends a request, and gives its response.</summary>
            /// <param name="request">The request.</param>
            /// <param name="timeout">Null for a minute.</param>
            public Task<HttpResponse> SendRequest(HttpRequest request, TimeSpan? timeout = null) => _one.Begin(request, timeout);

        {{string.Join("\n\n", ((string[])["Head", "Get"]).Select(m => Plain(m)))}}

        {{string.Join("\n\n", ((string[])["Post", "Put"]).Select(m => Full(m)))}}

        {{string.Join("\n\n", ((string[])["Delete", "Options", "Trace"]).Select(m => Plain(m)))}}

            /// <summary>Sends the request that waits for the connection.</summary>
            protected override void On{{v.Ready}}() => _one.Connected();

            /// <summary>The connection has ended; a request without a response fails.</summary>
            protected override void OnDisconnected()
            {
                base.OnDisconnected();
                _one.Ended();
            }

            /// <summary>The response is there.</summary>
            /// <param name="response">The response.</param>
            protected override void OnReceivedResponse(HttpResponse response) => _one.Answered();

            /// <summary>The response broke a rule.</summary>
            /// <param name="response">What there is of it.</param>
            /// <param name="error">Which rule.</param>
            protected override void OnReceivedResponseError(HttpResponse response, string error) => _one.Broken(error);

            /// <inheritdoc/>
            protected override void Dispose(bool disposingManagedResources)
            {
                base.Dispose(disposingManagedResources);
                if (disposingManagedResources) _one.Dispose();
            }

            private protected override void Settle() => _one.Settle();

            private protected override void Connecting() => _one.Connecting();

            bool IOneRequest.Connect() => ConnectAsync();

            bool IOneRequest.Send(HttpRequest request) => SendRequestAsync(request);

            void IOneRequest.End() => DisconnectAsync();
        }

        """;

    private static string Plain(string method) => $$"""
            /// <summary>Sends {{method.ToUpperInvariant()}}, and gives its response.</summary>
            /// <param name="url">The URL.</param>
            /// <param name="timeout">Null for a minute.</param>
            public Task<HttpResponse> Send{{method}}Request(string url, TimeSpan? timeout = null) => _one.Begin(() => Request.Make{{method}}Request(url), timeout);
        """;

    private static string Full(string method) => $$"""
            /// <summary>Sends {{method.ToUpperInvariant()}}, and gives its response.</summary>
            /// <param name="url">The URL.</param>
            /// <param name="content">The body.</param>
            /// <param name="timeout">Null for a minute.</param>
            public Task<HttpResponse> Send{{method}}Request(string url, string content, TimeSpan? timeout = null) => _one.Begin(() => Request.Make{{method}}Request(url, content), timeout);
        """;
}
