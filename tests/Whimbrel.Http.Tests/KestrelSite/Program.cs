using System.Globalization;
using System.Net;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

// KestrelSite PORT PORT-WITH-TLS FOLDER: the site that ServerTests requests. Its certificate and its large file are in
// the folder.
string folder = args[2];
WebApplicationBuilder builder = WebApplication.CreateSlimBuilder();
builder.Logging.ClearProviders();
builder.Services.AddResponseCompression(static compression => compression.EnableForHttps = true);
builder.WebHost.UseKestrelHttpsConfiguration();
builder.WebHost.ConfigureKestrel(kestrel =>
{
    kestrel.Limits.MaxRequestBodySize = null;
    kestrel.Listen(IPAddress.Loopback, int.Parse(args[0], CultureInfo.InvariantCulture),
        static listener => listener.Protocols = HttpProtocols.Http1);
    kestrel.Listen(IPAddress.Loopback, int.Parse(args[1], CultureInfo.InvariantCulture), listener =>
    {
        listener.Protocols = HttpProtocols.Http1;
        listener.UseHttps(X509Certificate2.CreateFromPemFile(Path.Combine(folder, "certificate"),
            Path.Combine(folder, "key")));
    });
});
WebApplication site = builder.Build();
site.UseResponseCompression();
site.MapGet("/text", static () => "hello");
site.MapGet("/large", () => Results.File(Path.Combine(folder, "large")));
site.MapGet("/redirect", static () => Results.Redirect("/text"));
site.MapGet("/long", static () => new string('x', 100_000));
site.MapPost("/sum", static async context =>
    await context.Response.WriteAsync(Convert.ToHexString(await SHA256.HashDataAsync(context.Request.Body))));
site.MapGet("/chunked", static async context =>
{
    foreach (string piece in (string[])["one ", "two ", "three"])
    {
        await context.Response.Body.WriteAsync(Encoding.ASCII.GetBytes(piece));
        await context.Response.Body.FlushAsync();
    }
});
site.MapGet("/cut", static async context =>
{
    context.Response.ContentLength = 1000;
    await context.Response.Body.WriteAsync(new byte[10]);
    await context.Response.Body.FlushAsync();
    context.Abort();
});
site.MapGet("/nothing", static context =>
{
    context.Abort();
    return Task.CompletedTask;
});
await site.RunAsync();
