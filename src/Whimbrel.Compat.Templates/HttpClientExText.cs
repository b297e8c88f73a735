namespace Whimbrel.Compat.Templates;

/// <summary>Http*ClientEx</summary>
internal static class HttpClientExText
{
    internal static string Text(Variant v) => $$"""
        using System.Net;
        using Whimbrel.Compat;

        namespace NetCoreServer;

        /// <summary>
        /// HTTP/1.1 client{{v.Over}} with awaited requests, one at a time. It connects automatically. The caller owns
        /// the response. The task fails if the response breaks a rule, the connection ends before it, or the timeout
        /// passes (<see cref="OneRequest"/>).
        /// </summary>
        public class Http{{v.S}}ClientEx : Http{{v.S}}Client, IOneRequest
        {
            private readonly OneRequest _one;

        {{Members.Constructors(v, $"Http{v.S}ClientEx", " => _one = new OneRequest(this);")}}
            HttpAsking IOneRequest.Http => Asking;

            bool IOneRequest.IsReady => Is{{v.Ready}};

            bool IOneRequest.IsBusy => IsConnected || IsConnecting;

            string IOneRequest.Failure => Failure;

            /// <summary>Sends <see cref="HttpClient.Request"/>, and returns its response.</summary>
            /// <param name="timeout">Longest wait; null for one minute.</param>
            public Task<HttpResponse> SendRequest(TimeSpan? timeout = null) => SendRequest(Request, timeout);

            /// <summary>Sends a request, and returns its response.</summary>
            /// <param name="request">Request of the client.</param>
            /// <param name="timeout">Longest wait; null for one minute.</param>
            public Task<HttpResponse> SendRequest(HttpRequest request, TimeSpan? timeout = null) => _one.Begin(request, timeout);

        {{string.Join("\n\n", ((string[])["Head", "Get"]).Select(m => Plain(m)))}}

        {{string.Join("\n\n", ((string[])["Post", "Put"]).Select(m => Full(m)))}}

        {{string.Join("\n\n", ((string[])["Delete", "Options", "Trace"]).Select(m => Plain(m)))}}

            /// <summary>Sends the request that waits for the connection.</summary>
            protected override void On{{v.Ready}}() => _one.Connected();

            /// <summary>Fails a request without a response, because the connection has ended.</summary>
            protected override void OnDisconnected()
            {
                base.OnDisconnected();
                _one.Ended();
            }

            /// <summary>Completes the request.</summary>
            /// <param name="response">Response of the server.</param>
            protected override void OnReceivedResponse(HttpResponse response) => _one.Answered();

            /// <summary>Stores the error of a response that broke a rule.</summary>
            /// <param name="response">Incomplete response.</param>
            /// <param name="error">Description of the error.</param>
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
            /// <summary>Sends {{method.ToUpperInvariant()}}, and returns its response.</summary>
            /// <param name="url">URL.</param>
            /// <param name="timeout">Longest wait; null for one minute.</param>
            public Task<HttpResponse> Send{{method}}Request(string url, TimeSpan? timeout = null) => _one.Begin(() => Request.Make{{method}}Request(url), timeout);
        """;

    private static string Full(string method) => $$"""
            /// <summary>Sends {{method.ToUpperInvariant()}}, and returns its response.</summary>
            /// <param name="url">URL.</param>
            /// <param name="content">Body, sent as UTF-8.</param>
            /// <param name="timeout">Longest wait; null for one minute.</param>
            public Task<HttpResponse> Send{{method}}Request(string url, string content, TimeSpan? timeout = null) => _one.Begin(() => Request.Make{{method}}Request(url, content), timeout);
        """;
}
